import pytest

from tools.check_data.report import describe_ids, without_repetition


def missing(name: str, row: int = 0) -> str:
    return f"/data/train_A/{name}.png: pixel (row {row}, column 3) holds id 9"


def test_a_problem_of_most_samples_is_listed_once_with_their_number() -> None:
    problems = {str(k): [missing(str(k), row=k)] for k in range(6)} | {"6": ["/data/train_A/6.png: is empty"]}
    expected = [missing("0") + " (in 6 of 7 samples)", "/data/train_A/6.png: is empty"]
    assert list(without_repetition(problems, 7)) == expected
    for n, n_samples in ((5, 5), (6, 12)):  # few samples, and a minority
        problems = {str(k): [missing(str(k))] for k in range(n)}
        assert list(without_repetition(problems, n_samples)) == [missing(str(k)) for k in range(n)]


@pytest.mark.parametrize(
    ("ids", "ignore_id", "line"),
    [
        ({0, 1, 5}, None, "ids 0 to 1 and 5: data.n_classes=6"),
        ({*range(256)}, None, "ids 0 to 255: data.n_classes=256"),
        ({3, 7, 9}, 9, "ids 3, 7 and 9: data.n_classes=8 data.ignore_id=9"),
        ({*range(0, 40, 2)}, None, "ids 0, 2, 4, 6, 8, 10, 12, 12 more ranges and 38: data.n_classes=39"),
        ({1, 2}, None, "ids 1 to 2, of data.n_classes=3"),
    ],
)
def test_ids_in_a_line(ids: set[int], ignore_id: int | None, line: str) -> None:
    assert describe_ids(ids, 3, ignore_id) == line
