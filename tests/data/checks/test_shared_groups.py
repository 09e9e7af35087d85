from data.checks.shared_groups import shared_groups


def test_splits_that_share_a_patient_are_named_with_the_remedy() -> None:
    names = {"train": ["p001_slice03", "p002_slice03"], "val": ["p001_slice09"], "test": ["p003_slice01"]}
    (line,) = shared_groups(names)
    assert line.startswith("train and val share 1 beginning of names, as p001_slice03 and p001_slice09: if these are")
    assert line.endswith(r"without a split val, train.validation_group='p\d+_slice' holds them back together")
    assert list(shared_groups({"train": ["1", "2"], "val": ["3"]})) == []
