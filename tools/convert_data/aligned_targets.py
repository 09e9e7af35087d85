"""Copy a data set, and shift its targets into alignment with their sources."""

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from configs.splits import open_split
from data.batch import DataError
from data.checks import FAINT_PEAK, Shift, displacement
from data.files.image_files import read_ids, read_pixels, write_jpeg, write_png
from data.files.tiff_tags import TIFF_SUFFIXES, write_tiff
from data.folder import File
from data.layout import Layout
from tools.check_data.recognized_layout import data_set_in
from utils.files import replacing
from utils.machine import usable_cores
from utils.text import counted, listed
from utils.worker_threads import in_order, worker_threads


def align_targets(origin: Path, target: Path) -> list[str]:
    """Copy a data set, and shift its targets and weight maps. Return a line for each split.

    Raises:
        DataError: `origin` has no folders of sources and targets, or `target` exists.
    """
    if target.exists():
        raise DataError(f"{target}: already exists. Choose another TO.")
    config, splits = data_set_in(origin, None, ())
    lines = []
    for split in splits:
        layout = open_split(config, split, needs_targets=split != "test")
        files = layout.provenance(0).files
        if not {"source", "target"} <= files.keys():
            if "pair" in files or len(layout.sides) > 1:
                raise DataError(f"{origin}: needs pairs in folders such as {split}_A and {split}_B")
            continue
        if not Path(str(files["target"])).is_file():
            raise DataError(f"{files['target']}: is in a tar file. Unpack the data set.")
        with worker_threads(usable_cores()) as pool:
            align = partial(_align, layout, origin, target)
            calls = in_order(pool, align, range(len(layout)), 2 * usable_cores())
            bar = tqdm(calls, total=len(layout), unit="pair", disable=None, dynamic_ncols=True)
            lines.append(f"{split}: {_described(layout, [call.result() for call in bar])}")

    def written(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (target / Path(folder).relative_to(origin) / name).is_file()]

    shutil.copytree(origin, target, ignore=written, dirs_exist_ok=True)  # last, so that an interrupted copy is unusable
    return lines


def _described(layout: Layout, shifts: list[Shift | None]) -> str:
    shifted = [max(map(abs, shift)) for shift in shifts if shift and any(shift)]
    line = f"{len(shifted)} of {counted(len(shifts), 'target')} shifted"
    line += f", by {counted(max(shifted), 'pixel')} at most and {median(shifted):g} in the median" if shifted else ""
    if unknown := [name for name, shift in zip(layout.names, shifts, strict=True) if shift is None]:
        line += f". {len(unknown)} unchanged, without a clear displacement: {listed(unknown, 12)}"
    return line


def _align(layout: Layout, root: Path, copy: Path, index: int) -> Shift | None:
    """Write the shifted target and weight map of a sample. Return the displacement, or None if it is not clear."""
    files, shift, is_ids = layout.provenance(index).files, None, layout.n_classes > 0
    with suppress(DataError):  # check_data reports files that cannot be read
        source = read_ids(files["source"]) if is_ids else read_pixels(files["source"]).float().nan_to_num()
        target = read_pixels(files["target"]).float().nan_to_num()
        shift = displacement(source, target, source_is_ids=is_ids, least_peak=FAINT_PEAK)
    if shift is None or not any(shift):
        return shift
    for path in [Path(str(files[kind])) for kind in ("target", "weights") if kind in files]:
        _write(copy / path.relative_to(root), _moved(read_pixels(path), *shift), path)
    return shift


def _moved(image: Tensor, x: int, y: int) -> Tensor:
    """Return a (C, H, W) image, moved left by x pixels and up by y pixels. The border pixels are repeated."""
    height, width = image.shape[1:]
    rows, columns = np.arange(height) + y, np.arange(width) + x
    moved = image.numpy()[:, rows.clip(0, height - 1)[:, None], columns.clip(0, width - 1)]
    return torch.from_numpy(np.ascontiguousarray(moved))


def _write(path: Path, image: Tensor, like: File) -> None:
    """Write (C, H, W) pixels in the format of the file `like`."""
    with replacing(path) as unfinished:
        match path.suffix.lower():
            case ".npy":
                with unfinished.open("wb") as file:
                    np.save(file, image.numpy())
            case suffix if suffix in TIFF_SUFFIXES:
                write_tiff(unfinished, image, like)
            case ".png":
                write_png(unfinished, image)
            case ".jpg" | ".jpeg":
                write_jpeg(unfinished, image)
            case suffix:  # .bmp, .ppm, .webp
                pixels = image.expand(max(3, len(image)), -1, -1).permute(1, 2, 0).contiguous().numpy()
                Image.fromarray(pixels).save(unfinished, Image.registered_extensions()[suffix], lossless=True)
