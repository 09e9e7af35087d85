from utils.signatures import accepted, argument_names


class Example:
    def __init__(self, first: int, *more: int, second: int, third: int = 3, **options: int) -> None: ...


def test_only_what_can_be_passed_by_name_is_passed() -> None:
    assert argument_names(Example) == {"first", "second", "third"}
    assert accepted(Example, {"second": 2, "fourth": 4}) == {"second": 2}
