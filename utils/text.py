"""Functions that format messages: counted nouns, escaped names, lists, and suggestions for misspelt words."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a text such as "1 image" or "2 images". Pass `plural` for a noun with an irregular plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def exact(number: object) -> str:
    """Return the shortest text that parses to the same number, for a Python or NumPy number. 255.0 becomes "255"."""
    return str(number).removesuffix(".0")


def printable(text: str) -> str:
    """Return `text` with control characters escaped, because file names in messages can contain any character."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def listed(texts: Sequence[str], most: int = 3) -> str:
    """Return the first `most` texts and the number of other texts, such as "a, b, c and 2 more"."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def did_you_mean(text: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean WORD?" for the most similar known word, or "" if no known word is similar."""
    in_lower_case = {word.lower(): word for word in known}
    word = "cuda" if text.lower() == "gpu" and "cuda" in in_lower_case else text.lower()  # otherwise "cpu" wins
    similar = get_close_matches(word, in_lower_case, 1, cutoff)
    return f"did you mean {in_lower_case[similar[0]]}?" if similar else ""
