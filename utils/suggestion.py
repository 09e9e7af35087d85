"""The known word that an unknown one is most like."""

from collections.abc import Iterable
from difflib import get_close_matches

_SYNONYMS = {"gpu": "cuda", "nvidia": "cuda"}


def suggestion(text: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the word of `known` that was meant by `text`, None where none is alike."""
    choices = list(known)
    synonym = _SYNONYMS.get(text.lower().partition(":")[0])
    if synonym in choices:
        return synonym
    return next(iter(get_close_matches(text, choices, n=1, cutoff=cutoff)), None)


def did_you_mean(text: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean WORD?", empty where no known word is alike."""
    word = suggestion(text, known, cutoff)
    return f"did you mean {word}?" if word else ""
