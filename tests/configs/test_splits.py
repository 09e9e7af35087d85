from pathlib import Path

import pytest
from torch.nn import Identity

from configs.schema import Config, DataConfig, TrainConfig
from configs.splits import HELD_BACK, check_has_split, has_split, open_split, translated_split
from data.batch import DataError
from data.validation_split import split_validation
from inference.load import LoadedGenerator
from tools.playground.page import open_samples


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "train").mkdir()
    for number in range(12):
        (tmp_path / "train" / f"{number}.png").touch()
    return tmp_path


def config_of(root: Path, share: float = 0.4, **data: str) -> Config:
    return Config(
        data=DataConfig(layout="side_by_side", root=str(root), preprocess="none", **data),  # type: ignore[arg-type]
        train=TrainConfig(validation_share=share),
    )


def loaded_by(config: Config) -> LoadedGenerator:
    return LoadedGenerator(Path("checkpoint.pt"), config, 1, Identity())


def test_held_back_samples_are_a_split(root: Path) -> None:
    config = config_of(root)
    rest, held_back = split_validation(open_split(config, "train", needs_targets=False), config.train.validation_share)
    names = open_split(config, HELD_BACK, needs_targets=False).names
    assert names == held_back.names == open_samples(loaded_by(config), HELD_BACK).names
    assert sorted([*names, *rest.names], key=int) == [str(number) for number in range(12)]
    with pytest.raises(DataError, match=r"has no split 'test'\. Choose --split train or --split held_back, or X\.$"):
        check_has_split(config, "test", "X")
    with pytest.raises(DataError, match=r"has no split 'test'\. Choose --split train or --split held_back\.$"):
        open_samples(loaded_by(config), "test")


@pytest.mark.parametrize(("share", "folder"), [(0.0, "test"), (0.4, "val")])
def test_without_a_share_or_with_an_own_split_none_are_held_back(root: Path, share: float, folder: str) -> None:
    (root / folder).mkdir()
    config = config_of(root, share)
    assert not has_split(config, HELD_BACK)
    with pytest.raises(DataError, match=rf"no split 'held_back'\. Choose --split train or --split {folder}\.$"):
        check_has_split(config, HELD_BACK)
    with pytest.raises(DataError, match=r"train\.validation_share"):
        open_split(config, HELD_BACK, needs_targets=False)


def test_val_is_translated_without_a_test_split(root: Path) -> None:
    assert translated_split(config_of(root)) == "test"
    (root / "val").mkdir()
    assert translated_split(config_of(root)) == "val"
    (root / "test").mkdir()
    assert translated_split(config_of(root)) == "test"
