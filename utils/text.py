"""Parts of messages."""

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return "1 image" or "2 images"; `plural` where it is not the noun with an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def printable(text: str) -> str:
    """Return `text` with control characters and bytes that are no text escaped: names of files may hold anything."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def listed(texts: Sequence[str], most: int = 3) -> str:
    """Return "a, b, c and 2 more": the first `most` of some texts."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
