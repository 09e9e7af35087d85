"""Numbers with their nouns."""


def counted(number: int, noun: str) -> str:
    """Return "1 image" or "2 images"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
