from pathlib import Path

import numpy as np
import pytest

from data.batch import DataError
from data.side_by_side import SideBySide
from tests.conftest import save_image


@pytest.mark.parametrize(("a_to_b", "source_level"), [(True, 10), (False, 200)])
def test_either_half_can_be_the_source(tmp_path: Path, a_to_b: bool, source_level: int) -> None:
    pair = np.full((4, 12, 3), 200, dtype=np.uint8)
    pair[:, :6] = 10
    save_image(tmp_path / "1.png", pair)
    sample = SideBySide(folder=tmp_path, a_to_b=a_to_b).read(0)
    assert sample.target is not None
    assert sample.source.shape == sample.target.shape == (3, 4, 6)
    assert sample.source.unique().tolist() == [source_level]
    assert sample.target.unique().tolist() == [210 - source_level]


def test_an_odd_width_is_refused(tmp_path: Path) -> None:
    save_image(tmp_path / "odd.png", np.zeros((4, 7, 3), dtype=np.uint8))
    with pytest.raises(DataError, match=r"odd\.png: is 7 pixels wide, expected two halves"):
        SideBySide(folder=tmp_path, a_to_b=True).read(0)
