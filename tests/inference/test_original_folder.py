import logging
from pathlib import Path

import pytest

from inference.load import find_checkpoint_file
from models.originals.format import FileRole
from utils.checkpoint import CheckpointError
from utils.log import logger


def folder_of(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


@pytest.mark.parametrize(
    ("names", "role", "expected"),
    [
        (["latest_net_G.pth", "latest_net_D.pth", "latest_net_E.pth"], "generator", "latest_net_G.pth"),
        (["latest_net_G.pth", "latest_net_D.pth", "latest_net_E.pth"], "discriminator", "latest_net_D.pth"),
        (["latest_net_G.pth", "latest_net_E.pth", "20_net_E.pth"], "encoder", "latest_net_E.pth"),
        (["200_net_G.pth", "latest_net_G.pth", "90_net_G.pth"], "generator", "latest_net_G.pth"),
        (["90_net_G.pth", "200_net_G.pth"], "generator", "200_net_G.pth"),
        (["iter_900_net_G.pth", "iter_1000_net_G.pth"], "generator", "iter_1000_net_G.pth"),
        (["models/best_G.pth", "models/best_EMA.pth", "models/best_D.pth"], "generator", "models/best_EMA.pth"),
        (["models/best_EMA.pth", "models/latest_EMA.pth"], "generator", "models/latest_EMA.pth"),
        (["models/best_EMA.pth", "models/best_D.pth"], "discriminator", "models/best_D.pth"),
    ],
)
def test_the_latest_file_of_a_network_is_taken(tmp_path: Path, names: list[str], role: FileRole, expected: str) -> None:
    assert find_checkpoint_file(folder_of(tmp_path, *names), role) == tmp_path / expected


def test_a_choice_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger.name):
        find_checkpoint_file(folder_of(tmp_path, "latest_net_G.pth", "latest_net_D.pth"))
        assert caplog.text == ""
        find_checkpoint_file(folder_of(tmp_path, "90_net_G.pth", "200_net_G.pth"))
    assert "latest_net_G.pth; not 200_net_G.pth, 90_net_G.pth: name a file to choose it" in caplog.text


def test_a_folder_without_the_network_names_what_there_is(tmp_path: Path) -> None:
    folder_of(tmp_path, "cyclegan/latest_net_G_A.pth", "label2city/latest_net_G.pth", "mine/checkpoint-00000001.pt")
    folder_of(tmp_path, "oasis/models/best_EMA.pth", "label2city/latest_net_D.pth")
    message = (
        r"cyclegan: the folder holds no checkpoint, and no generator of an original\. Name one of its files: l.*A\.p"
    )
    with pytest.raises(CheckpointError, match=message):
        find_checkpoint_file(tmp_path / "cyclegan")
    with pytest.raises(CheckpointError, match=r"no encoder of an original\. Name one of its files: latest_net_D\.pth,"):
        find_checkpoint_file(tmp_path / "label2city", "encoder")
    with pytest.raises(CheckpointError, match=r"Runs below it: \S+/label2city, \S+/mine, \S+/oasis\.$"):
        find_checkpoint_file(tmp_path)
    with pytest.raises(CheckpointError, match=r"no such checkpoint file\. Runs in \S+: label2city, mine, oasis\.$"):
        find_checkpoint_file(tmp_path / "label2cities")
