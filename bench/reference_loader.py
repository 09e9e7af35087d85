"""Plain loaders in the manner of pix2pixHD and pix2pix, with which this project's loader is compared.

Pillow decodes and resizes, torchvision converts to floats, and a DataLoader with the same number of processes delivers
them in the range of the networks, [-1, 1], with four bytes a value. This project's loader delivers bytes, which the
device converts. Samples are endless, so that the start of processes at a new epoch does not count.
"""

import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torchvision.transforms.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

Maps = dict[str, Tensor]

FORMATS = ("PNG", "JPEG")


class LabelMapFolders(Dataset[Maps]):
    """pix2pixHD's folders at its `scale_width`: ROOT/train_label, train_inst, train_img, partners by sorted names."""

    def __init__(self, root: Path, width: int) -> None:
        folders = [root / f"train_{kind}" for kind in ("label", "inst", "img")]
        self._samples = list(zip(*(sorted(folder.iterdir()) for folder in folders), strict=True))
        self._width = width

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Maps:
        """Return label (1, H, W) float ids, inst (1, H, W) integer ids, image (3, H, W) in [-1, 1]."""
        label, instances, photo = (Image.open(path, formats=FORMATS) for path in self._samples[index])
        flips = random.random() < 0.5
        return {
            "label": F.to_tensor(self._place(label, Image.Resampling.NEAREST, flips)) * 255,
            "inst": F.to_tensor(self._place(instances, Image.Resampling.NEAREST, flips)),
            "image": _normalized(self._place(photo.convert("RGB"), Image.Resampling.BICUBIC, flips)),
        }

    def _place(self, image: Image.Image, resampling: Image.Resampling, flips: bool) -> Image.Image:
        height = self._width * image.height // image.width
        return _flipped(image.resize((self._width, height), resampling), flips)


class SideBySideFiles(Dataset[Maps]):
    """pix2pix's files at its `resize_and_crop`: each half resized to a square, cut to a smaller one."""

    def __init__(self, folder: Path, load_size: int, crop_size: int) -> None:
        self._paths = sorted(folder.iterdir())
        self._load_size = load_size
        self._crop_size = crop_size

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Maps:
        """Return A and B, (3, H, W) in [-1, 1]."""
        pair = Image.open(self._paths[index], formats=FORMATS).convert("RGB")
        middle = pair.width // 2
        halves = {"A": (0, 0, middle, pair.height), "B": (middle, 0, pair.width, pair.height)}
        left, top = (random.randint(0, self._load_size - self._crop_size) for _ in range(2))
        flips = random.random() < 0.5
        box = (left, top, left + self._crop_size, top + self._crop_size)
        size = (self._load_size, self._load_size)
        return {
            name: _normalized(_flipped(pair.crop(half).resize(size, Image.Resampling.BICUBIC).crop(box), flips))
            for name, half in halves.items()
        }


def reference_batches(dataset: Dataset[Any], n_samples: int, n_workers: int) -> Generator[Maps]:
    """Yield batches of one sample in random order, without end. n_samples: of the data set."""
    sampler = RandomSampler(dataset, num_samples=n_samples * 10**6)  # type: ignore[arg-type]
    yield from DataLoader(dataset, sampler=sampler, num_workers=n_workers)


def _flipped(image: Image.Image, flips: bool) -> Image.Image:
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flips else image


def _normalized(image: Image.Image) -> Tensor:
    return F.normalize(F.to_tensor(image), [0.5] * 3, [0.5] * 3)
