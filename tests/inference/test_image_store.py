from pathlib import Path

import numpy as np
import pytest
import torch

from configs import build
from configs.load import load_config
from data.files.tiff_tags import file_tags
from data.paired_folders import PairedFolders
from inference.image_store import image_store, reduced
from inference.output_folder import OutputFolder
from tests.images import GEO_TAGS, noise_image, tifffile


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float32])
def test_images_are_reduced_to_means(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.image_store._PIXELS", 35 * 22 // 9)
    image = (torch.arange(2 * 35 * 22) % 251).reshape(2, 35, 22)
    made = reduced(image.to(dtype))
    assert (made.dtype, made.shape) == (dtype, (2, 12, 8))
    means = image[:, :33, :21].float().unfold(1, 3, 3).unfold(2, 3, 3).mean((3, 4))
    assert (made[:, :11, :7].float() - means).abs().max() < (1e-3 if dtype == torch.float32 else 0.51)
    assert made[1, 11, 7] == image[1, 33:, 21:].float().mean().round()


def test_small_images_and_ids_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.arange(30, dtype=torch.int32).view(1, 5, 6)
    assert torch.equal(reduced(ids.to(torch.uint8)), ids.to(torch.uint8))
    monkeypatch.setattr("inference.image_store._PIXELS", 7)
    assert torch.equal(reduced(ids, is_ids=True), ids[:, ::2, ::2])


def test_a_tiff_with_tags_becomes_a_tiff_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pixels, options = noise_image(0), {"photometric": "rgb", "metadata": None}
    for name, tags in {"place": GEO_TAGS, "plain": []}.items():
        tifffile().imwrite(tmp_path / "in" / f"{name}.tif", pixels.permute(1, 2, 0).numpy(), extratags=tags, **options)
    tifffile().imwrite(tmp_path / "in" / "slide.svs", np.zeros((32, 48, 3), np.uint8), tile=(16, 16), **options)
    (tmp_path / "rgb.yaml").write_text("data: {layout: paired_folders, root: somewhere}")
    layout = PairedFolders({"source": tmp_path / "in"})

    def folder(*settings: str) -> OutputFolder:
        return OutputFolder(
            tmp_path / "out", layout, image_store(build.data_facts(load_config(tmp_path / "rgb.yaml", settings)))
        )

    results = folder()
    assert [results.image(name).name for name in layout.names] == ["place.tif", "plain.png", "slide.tif"]
    results.store.write(results.image("place"), pixels, results.source(0))
    assert len(file_tags(results.image("place")).georeferencing) == len(GEO_TAGS)
    assert torch.equal(results.store.read(results.image("place")), pixels)
    for files, suffix in {"uint8.tif": ".tif", "uint8.npy": ".npy", "uint8.png": ".png"}.items():
        chosen = folder(f"data.target_files={files}")
        for index in (0, 1):
            file = chosen.image(layout.names[index])
            assert file.suffix == suffix
            chosen.store.write(file, pixels, chosen.source(index))
            assert torch.equal(chosen.store.read(file), pixels)
    assert folder("data.target_files=float32.tif").image("plain").suffix == ".png"  # 8-bit RGB is none
