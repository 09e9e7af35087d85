import pytest
import torch

from inference.image_store import Reduction, reduced


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_bands_are_reduced_to_means(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.image_store._PIXELS", 35 * 22 // 9)
    image = (torch.arange(2 * 35 * 22) % 251).reshape(2, 35, 22)
    reduction = Reduction(35, 22)
    for band in image.to(dtype).split([1, 17, 2, 15], dim=1):
        reduction.add(band)
    made = reduction.image()
    assert made.dtype == dtype
    assert made.shape == (2, 12, 8)
    means = image[:, :33, :21].float().unfold(1, 3, 3).unfold(2, 3, 3).mean((3, 4))
    difference = (made[:, :11, :7].float() - means).abs().max()
    assert difference < 1e-3 if dtype == torch.float32 else difference <= 0.5
    assert made[1, 11, 7] == image[1, 33:, 21:].float().mean().round()


def test_small_images_and_ids_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.arange(30, dtype=torch.int32).view(1, 5, 6)
    assert torch.equal(reduced(ids.to(torch.uint8)), ids.to(torch.uint8))
    monkeypatch.setattr("inference.image_store._PIXELS", 7)
    assert torch.equal(reduced(ids, is_ids=True), ids[:, ::2, ::2])
