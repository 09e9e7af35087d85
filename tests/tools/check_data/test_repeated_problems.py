from tools.check_data.repeated_problems import without_repetition


def missing(name: str, row: int = 0) -> str:
    return f"/data/train_A/{name}.png: pixel (row {row}, column 3) holds id 9"


def test_a_problem_of_most_samples_is_listed_once_with_their_number() -> None:
    problems = {str(k): [missing(str(k), row=k)] for k in range(6)} | {"6": ["/data/train_A/6.png: is empty"]}
    expected = [missing("0") + " (in 6 of 7 samples)", "/data/train_A/6.png: is empty"]
    assert list(without_repetition(problems, 7)) == expected


def test_problems_of_few_samples_and_of_a_minority_are_all_listed() -> None:
    for n, n_samples in ((5, 5), (6, 12)):
        problems = {str(k): [missing(str(k))] for k in range(n)}
        assert list(without_repetition(problems, n_samples)) == [missing(str(k)) for k in range(n)]
