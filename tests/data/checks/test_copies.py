from pathlib import Path

from data.checks.checking import shared_files
from data.folder import LocalFile


def test_files_of_equal_bytes_in_two_splits(tmp_path: Path) -> None:
    begin = "0" * 100_000  # files of one size that differ only at their ends are no copies
    contents = {"a": "one", "b": "two", "c": "one", "d": "longer", "e": "two", "f": f"{begin}f", "g": f"{begin}g"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)

    def lines(**names: str) -> list[str]:
        return list(
            shared_files({split: [LocalFile.of(tmp_path / name) for name in own] for split, own in names.items()})
        )

    (line,) = lines(train="abf", val="dg", test="ce")
    assert line.startswith(f"train and test share 2 files, as {tmp_path}/a and {tmp_path}/c. ")
    assert lines(train="ac", val="d") == []
