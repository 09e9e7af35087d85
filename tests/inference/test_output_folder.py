"""The folder of results: what may not be overwritten, and the record of what made translations."""

from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from configs.load import load_config
from data.batch import DataError
from data.paired_folders import PairedFolders
from inference.image_store import ImageStore
from inference.origin import _options, settings_of
from inference.output_folder import OutputFolder
from inference.request import ComputeOptions, Request
from tests.conftest import save_image


def test_settings_that_change_translations_are_recorded(tmp_path: Path) -> None:
    colors = {name: tmp_path / f"{name}.yaml" for name in ("two", "swapped")}
    for name, lines in zip(colors, (["a: [1, 2, 3]", "b: [4, 5, 6]"], ["b: [4, 5, 6]", "a: [1, 2, 3]"]), strict=True):
        colors[name].write_text("\n".join(lines))
    config = tmp_path / "empty.yaml"
    config.write_text("data: {layout: paired_folders, root: somewhere}")

    def recorded(*settings: str) -> dict[str, object]:
        return settings_of(load_config(config, settings))

    assert recorded() == {"data.layout": "paired_folders"}
    elsewhere = recorded("data.root=elsewhere", "data.workers=0", "data.augment.rotation_degrees=[-5,5]", "run.seed=3")
    assert elsewhere == recorded()
    ranges = recorded("data.source_range=[0,1000]", "data.ignore_id=255", "features.regions=instances")
    assert ranges == {"data.layout": "paired_folders", "data.source_range": [0.0, 1000.0], "data.ignore_id": 255}
    assert len({recorded(f"data.label_colors={file}")["data.label_colors"] for file in colors.values()}) == 2


def test_a_new_option_is_compared_unless_it_is_excepted() -> None:
    @dataclass(frozen=True)
    class MoreOptions(ComputeOptions):
        sharpen: int = 0

    recorded = _options(Request(compute=MoreOptions(sharpen=2, batch_size=4)))
    assert recorded["sharpen"] == 2
    assert "batch_size" not in recorded


@pytest.mark.parametrize(
    ("output", "names", "message"),
    [
        ("in", ["a"], r"--output: .*in holds inputs\. Choose an --output outside"),
        ("in/out", ["a"], r"--output: .*in holds inputs\."),
        ("inst", ["a"], r"inst holds inputs"),
        ("in/a.bmp", ["a"], r"a\.bmp is a file\. Choose another"),
        ("out", ["contact_sheet"], r"contact_sheet is a name among the results\. Rename"),
        ("out", ["gallery/x"], r"gallery/x is a name among the results\. Rename the input"),
    ],
)
def test_results_never_overwrite_inputs_nor_each_other(
    tmp_path: Path, output: str, names: list[str], message: str
) -> None:
    for folder in ("in", "inst"):
        for name in names:
            save_image(tmp_path / folder / f"{name}.bmp", np.zeros((8, 8), np.uint8))
    layout = PairedFolders({"source": tmp_path / "in", "instances": tmp_path / "inst"})
    with pytest.raises(DataError, match=message):
        OutputFolder(tmp_path / output, layout, ImageStore()).prepare("replace")


def test_inputs_are_not_overwritten_through_links(tmp_path: Path) -> None:
    save_image(tmp_path / "set" / "a.png", np.zeros((8, 8), np.uint8))
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.png").symlink_to(tmp_path / "set" / "a.png")
    layout = PairedFolders({"source": tmp_path / "links"})
    with pytest.raises(DataError, match=r"would overwrite the input .*a\.png"):
        OutputFolder(tmp_path / "set", layout, ImageStore()).prepare("refuse")


def test_a_second_process_may_not_write_into_the_same_folder(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, Mock(), ImageStore())
    with folder.locked(), pytest.raises(DataError, match="another process writes to"), folder.locked():
        pass
    assert list((tmp_path / "gallery").iterdir()) == []
