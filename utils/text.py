"""Parts of messages: counted nouns, names that may hold anything, and suggestions for misspelt words."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return "1 image" or "2 images". plural: Plural of the noun if it is irregular."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def exact(number: object) -> str:
    """Return the shortest text that reads back as the same float, for a Python or NumPy number; 255.0 is "255"."""
    return str(number).removesuffix(".0")


def printable(text: str) -> str:
    """Return `text` with control characters escaped. Messages may contain names of files, which can hold anything."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def listed(texts: Sequence[str], most: int = 3) -> str:
    """Return "a, b, c and 2 more": the first `most` of some texts."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def did_you_mean(text: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean WORD?", or nothing if no known word is similar."""
    in_lower_case = {word.lower(): word for word in known}
    similar = get_close_matches(text.lower(), in_lower_case, 1, cutoff)
    return f"did you mean {in_lower_case[similar[0]]}?" if similar else ""
