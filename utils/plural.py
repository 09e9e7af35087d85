"""Numbers with their nouns, for messages."""


def counted(n: int, noun: str) -> str:
    """Return "1 image" or "2 images"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
