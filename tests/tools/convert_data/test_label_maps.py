"""Label maps drawn in colours become ids and a table of their colours."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.files.image_files import read_ids
from tests.conftest import save_image
from tests.tools.convert_data.conftest import Convert
from tools.convert_data import conversion
from utils.label_colors import read_label_colors

COLORS = np.array([[0, 0, 0], [0, 90, 200], [128, 64, 128]], np.uint8)  # sorted by value
IDS = np.arange(32 * 48).reshape(32, 48) % 48 // 16


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    """Two maps of 48x32 with three classes; the second has 32 antialiased pixels, and is below a folder."""
    save_image(tmp_path / "maps" / "a.png", COLORS[IDS])
    blended = COLORS[IDS]
    blended[:, 16] = [100, 63, 128]  # near the third
    save_image(tmp_path / "maps" / "city" / "b.png", blended)
    return tmp_path / "maps"


def ids_in(folder: Path, name: str) -> np.ndarray:
    return read_ids(folder / "ids" / name)[0].numpy()


def test_colours_are_found_and_blends_get_the_nearest(maps: Path, tmp_path: Path, convert: Convert) -> None:
    code, out = convert("colors-to-ids", maps, tmp_path / "ids")
    assert code == 0
    assert np.array_equal(ids_in(tmp_path, "a.png"), IDS)
    expected = IDS.copy()
    expected[:, 16] = 2
    assert np.array_equal(ids_in(tmp_path, "city/b.png"), expected)
    assert f"to train: data.n_classes=3. To convert other splits: --colors {tmp_path / 'ids.yaml'}" in out
    table = read_label_colors(str(tmp_path / "ids.yaml"))
    assert table.names == ("class_0", "class_1", "class_2")
    assert torch.equal(table.colors, torch.from_numpy(COLORS))


def test_colours_of_a_file_keep_their_order_and_ignored_ones_get_255(
    maps: Path, tmp_path: Path, convert: Convert
) -> None:
    file = tmp_path / "colors.yaml"
    file.write_text("road: [128, 64, 128]\nno: [0, 90, 200]\nignored: [[0, 0, 0], [9, 9, 9]]\n")
    code, out = convert("colors-to-ids", maps, tmp_path / "ids", "--colors", file)
    assert code == 0
    assert np.array_equal(ids_in(tmp_path, "a.png"), np.array([255, 1, 0])[IDS])
    assert "data.n_classes=2 data.ignore_id=255" in out
    assert read_label_colors(str(tmp_path / "ids.yaml")).names == ("road", "no")


def test_shades_of_jpeg_are_one_colour(maps: Path, tmp_path: Path, convert: Convert) -> None:
    for path in list(maps.rglob("*.png")):
        Image.open(path).save(path.with_suffix(".jpg"), quality=60)
        path.unlink()
    assert convert("colors-to-ids", maps, tmp_path / "ids")[0] == 0
    assert (ids_in(tmp_path, "a.png") == IDS).mean() > 0.95


def test_the_table_is_written_before_the_first_map(
    maps: Path, tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, write = tmp_path / "ids.yaml", conversion.write_png

    def write_after_the_table(path: Path, image: torch.Tensor) -> None:
        assert table.exists()
        write(path, image)

    monkeypatch.setattr(conversion, "write_png", write_after_the_table)  # what an interruption leaves
    assert convert("colors-to-ids", maps, tmp_path / "ids")[0] == 0
    assert "ids.yaml: already exists" in convert.refusal("colors-to-ids", maps, tmp_path / "ids")
    table.unlink()
    assert "ids: already exists" in convert.refusal("colors-to-ids", maps, tmp_path / "ids")
    assert convert("colors-to-ids", maps, tmp_path / "ids", "--existing", "replace")[0] == 0
    assert table.exists()


def test_photographs_and_bad_files_are_refused(maps: Path, tmp_path: Path, convert: Convert) -> None:
    rng = np.random.default_rng(0)
    save_image(tmp_path / "photos" / "x.png", rng.integers(0, 256, (32, 32, 3), np.uint8))
    for folder, message in (
        (maps / "a.png", "a.png: is a file, expected a folder"),
        (tmp_path / "photos", "0 colours fill areas, expected 2 to 255"),
    ):
        assert message in convert.refusal("colors-to-ids", folder, tmp_path / "ids")
    assert not (tmp_path / "ids").exists()
    (maps / "bad.png").write_bytes(b"")
    code, out = convert("colors-to-ids", maps, tmp_path / "ids")
    assert (code, "left out: " in out) == (2, True)
    assert sorted(path.name for path in (tmp_path / "ids").rglob("*.png")) == ["a.png", "b.png"]
