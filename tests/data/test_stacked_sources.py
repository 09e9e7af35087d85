from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import Batch, DataError, Sample
from data.cache import SampleCache
from data.checks.observation import Observation, observe
from data.checks.warnings import split_warnings
from data.files.stored_images import StoredForm
from data.folder_store import LocalFile
from data.map_reader import MapReader, is_later_source, later_sources, read_part, stacked
from data.paired_folders import PairedFolders
from data.preprocessing import Placement, Placements, place
from tests.conftest import save_image
from tests.images import save_npy

RGB = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
DEPTH = np.arange(24, dtype=np.uint16).reshape(4, 6) * 1000


def form(n_channels: int, *, is_8_bit: bool = False) -> StoredForm:
    return StoredForm(n_channels, "data.source_channels", is_8_bit)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("uint8", "uint8"), "uint8"),
        (("uint8", "uint16"), "uint16"),
        (("uint16", "uint8", "uint16"), "uint16"),
        (("uint8", "int16"), "int16"),
        (("uint16", "int16"), "float32"),
        (("uint8", "float32"), "float32"),
    ],
)
def test_a_stack_holds_all_values_exactly(dtypes: tuple[str, ...], expected: str) -> None:
    images = []
    for dtype in dtypes:
        bounds = (0, 1e30) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        images.append(torch.from_numpy(np.array([[bounds]], dtype)))
    stack = stacked(images, [Path("x")] * len(images), form(len(images)))
    assert str(stack.dtype) == f"torch.{expected}"
    for channel, image in zip(stack, images, strict=True):
        assert channel.double().tolist() == image[0].double().tolist()


def test_transparency_is_dropped_where_the_channels_fit_without_it(tmp_path: Path) -> None:
    paths = [tmp_path / "colors.png", tmp_path / "depth.png"]
    save_image(paths[0], np.dstack([RGB, np.full((4, 6), 9, np.uint8)]))
    save_image(paths[1], DEPTH)
    images = [read_part(path, form(4)) for path in paths]
    assert stacked(images, paths, form(4))[:3].tolist() == RGB.transpose(2, 0, 1).tolist()
    assert stacked(images, paths, form(5))[3].unique().tolist() == [9]
    with pytest.raises(
        DataError, match=r"colors\.png has 4 channels, .*depth\.png has 1 channel: together 5, data\.sou"
    ):
        stacked(images, paths, form(3))


def test_arrays_of_either_order_are_stacked(tmp_path: Path) -> None:
    save_npy(tmp_path / "a.npy", RGB.astype(np.float32))
    save_npy(tmp_path / "b.npy", RGB.transpose(2, 0, 1).astype(np.float32))
    first, second = (read_part(tmp_path / name, form(6)) for name in ("a.npy", "b.npy"))
    assert first.shape == (3, 4, 6)
    assert torch.equal(first, second)


def test_parts_of_a_stack_are_checked_as_other_images(tmp_path: Path) -> None:
    save_npy(tmp_path / "a.npy", np.full((4, 6), np.nan, np.float32))
    save_image(tmp_path / "b.png", DEPTH)
    with pytest.raises(DataError, match=r"a\.npy: channel 1, row 0, column 0 holds nan"):
        read_part(tmp_path / "a.npy", form(2))
    with pytest.raises(DataError, match=r"b\.png: holds uint16, expected 8 bits"):
        read_part(tmp_path / "b.png", form(2, is_8_bit=True))


def test_kinds_of_later_source_folders_are_known() -> None:
    assert later_sources(3) == ["source_2", "source_3"]
    assert all(map(is_later_source, later_sources(12)))
    assert not any(map(is_later_source, ("source", "source_images", "target", "instances", "features")))


def write_folders(root: Path) -> None:
    for name in ("x", "y"):
        save_image(root / "rgb" / f"{name}_rgb.png", RGB)
        save_image(root / "depth" / f"{name}_depth.png", DEPTH)
        save_image(root / "label" / f"{name}.png", RGB[..., 0] // 40)
        save_image(root / "target" / f"{name}.png", RGB)


def folders(root: Path, first: str, *, n_classes: int, forms: dict[str, StoredForm]) -> PairedFolders:
    return PairedFolders(
        source_folder=root / first,
        later_source_folders=[root / "depth"],
        target_folder=root / "target",
        instance_folder=None,
        reader=MapReader(n_classes, forms=forms),
    )


def test_images_are_stacked_in_the_order_of_the_folders(tmp_path: Path) -> None:
    write_folders(tmp_path)
    layout = folders(tmp_path, "rgb", n_classes=0, forms={"source": form(4)})
    assert layout.names == ["x_rgb", "y_rgb"]
    origin = layout.origin(1)
    assert list(origin.kinds) == ["source", "source_2", "target"]
    assert [file.folder.path.name for file in origin.files] == ["rgb", "depth", "target"]
    sample = layout.read(0)
    assert sample.source_images is None
    assert sample.source.dtype == torch.uint16
    assert sample.source[:3].tolist() == RGB.transpose(2, 0, 1).tolist()
    assert sample.source[3].tolist() == DEPTH.tolist()


def test_images_behind_label_maps_are_a_map_of_their_own(tmp_path: Path) -> None:
    write_folders(tmp_path)
    sample = folders(tmp_path, "label", n_classes=3, forms={"source_images": form(1)}).read(1)
    assert sample.source.tolist() == (RGB[None, ..., 0] // 40).tolist()
    assert sample.source_images is not None
    assert sample.source_images.tolist() == DEPTH[None].tolist()


def test_images_are_interpolated_where_labels_are_not() -> None:
    labels = torch.tensor([[[0, 0, 2, 2]]], dtype=torch.uint8)
    sample = Sample("x", labels, None, None, source_images=labels.float() * 100)
    placed = place(sample, Placements.of_pair(Placement(1, 3, 0, 0, 1, 3, flip=True)), source_is_ids=True)
    assert set(placed.source.unique().tolist()) <= {0, 2}
    assert placed.source_images is not None
    assert 0 < float(placed.source_images[0, 0, 1]) < 200
    assert placed.source_images[0, 0, 0] > placed.source_images[0, 0, 2]  # mirrored
    batch = Batch.of([placed, placed])
    assert batch.source_images is not None
    assert batch.source_images.shape == (2, 1, 1, 3)
    assert len(batch.maps) == 2


@pytest.mark.parametrize(("first", "n_classes", "kind"), [("rgb", 0, "source"), ("label", 4, "source_images")])
def test_folders_that_are_shifted_against_each_other_are_observed(
    tmp_path: Path, first: str, n_classes: int, kind: str
) -> None:
    rng = np.random.default_rng(0)
    for name in ("x", "y"):
        blocks = rng.integers(0, 4, (14, 14), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
        color = np.dstack([blocks[8:104, 8:104]] * 3)
        save_image(tmp_path / "rgb" / f"{name}.png", color * np.uint8(60))
        save_image(tmp_path / "label" / f"{name}.png", color[..., 0])
        save_image(tmp_path / "depth" / f"{name}.png", blocks[8:104, 3:99].astype(np.uint16) * 9000)
        save_image(tmp_path / "target" / f"{name}.png", color * np.uint8(50))
    layout = folders(tmp_path, first, n_classes=n_classes, forms={kind: form(1 if n_classes else 4)})
    observed = [observe(layout, index, layout.read(index)) for index in range(2)]
    assert [seen.shift for seen in observed] == [(0, 0)] * 2
    assert [seen.stack_shift for seen in observed] == [(5, 0)] * 2
    (warning,) = split_warnings([Observation(f"s{k}", stack_shift=(5, 0)) for k in range(3)])
    assert warning.startswith("images of the last source folder seem to be shifted by 5 pixels to the right in 3 of 3")
    assert observed[0].bits == ({} if n_classes else {"source": 8}) | {"source_2": 16, "target": 8}


def test_a_cache_keeps_the_images_and_reads_files_of_earlier_versions(tmp_path: Path) -> None:
    labels, cache = torch.ones(1, 4, 6, dtype=torch.uint8), SampleCache(tmp_path)
    cache.keep(Sample("x", labels, None, None, source_images=labels.float()), by_content="a" * 64, by_state="b" * 64)
    kept = cache.read("b" * 64, "x")
    assert kept is not None
    assert kept.source_images is not None
    assert torch.equal(kept.source_images, labels.float())
    file = tmp_path / "bb" / f"{'b' * 62}.pt"
    maps = torch.load(file, weights_only=True)
    del maps["source_images"]
    torch.save(maps, file)
    earlier = cache.read("b" * 64, "y")
    assert earlier is not None
    assert torch.equal(earlier.source, labels)
    assert earlier.source_images is None


def test_the_rule_of_single_folders_is_that_of_earlier_versions() -> None:
    files = {"source": LocalFile.of(Path("a")), "target": LocalFile.of(Path("b"))}
    assert MapReader(0, None).origin(files).rule == "['source', 'target'] 0 None"
    rule = MapReader(3, 255, {"target": form(1)}).origin(files).rule
    assert rule == (
        "['source', 'target'] 3 255 [('target', StoredForm(n_channels=1, setting='data.source_channels', "
        "is_8_bit=False))]"
    )
