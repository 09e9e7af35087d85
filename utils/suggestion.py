"""The known word that an unknown one is most like."""

from collections.abc import Iterable
from difflib import get_close_matches

_SYNONYMS = {"gpu": "cuda", "nvidia": "cuda", "error": "refuse"}


def suggestion(text: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the word of `known` that was meant by `text`, None where none is alike."""
    choices = list(known)
    synonym = _SYNONYMS.get(text.lower().partition(":")[0])
    if synonym in choices:
        return synonym
    in_lower_case = {choice.lower(): choice for choice in choices}
    return next((in_lower_case[word] for word in get_close_matches(text.lower(), in_lower_case, 1, cutoff)), None)


def did_you_mean(text: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean WORD?", empty where no known word is alike."""
    word = suggestion(text, known, cutoff)
    return f"did you mean {word}?" if word else ""
