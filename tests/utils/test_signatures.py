from typing import Self

from utils.signatures import accepted, argument_names


class Example:
    def __init__(self, first: int, *more: int, second: int, third: int = 3, **options: int) -> None: ...

    @classmethod
    def open(cls, name: str, *, root: str) -> Self:
        raise NotImplementedError


def test_arguments_that_can_be_passed_by_name() -> None:
    assert argument_names(Example) == {"first", "second", "third"}
    assert argument_names(Example.open) == {"name", "root"}


def test_only_what_a_signature_has_is_passed() -> None:
    assert accepted(Example, {"second": 2, "fourth": 4}) == {"second": 2}
