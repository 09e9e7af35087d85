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
from data.files.image_files import read_ids, read_pixels, seen_in, write_jpeg, write_png
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
        first = layout.provenance(0).files.get("target")
        if first is None or len(layout.sides) > 1:
            continue
        if not Path(str(first)).is_file():
            raise DataError(f"{first}: is in a tar file. Unpack the data set.")
        with worker_threads(usable_cores()) as pool:
            align = partial(_align, layout, origin, target)
            calls = in_order(pool, align, range(len(layout)), 2 * usable_cores())
            bar = tqdm(calls, total=len(layout), unit="pair", disable=None, dynamic_ncols=True)
            lines.append(f"{split}: {_described(layout, [call.result() for call in bar])}")

    def written(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (target / Path(folder).relative_to(origin) / name).is_file()]

    if not lines:
        raise DataError(f"{origin}: needs pairs in folders such as train_A and train_B")
    # copy the sources last, so that an interrupted copy cannot be used by mistake
    shutil.copytree(origin, target, ignore=written, ignore_dangling_symlinks=True, dirs_exist_ok=True)
    return lines


def _described(layout: Layout, shifts: list[Shift | None]) -> str:
    shifted = [max(map(abs, shift)) for shift in shifts if shift and any(shift)]
    line = f"{len(shifted)} of {counted(len(shifts), 'target')} shifted"
    line += f", by {counted(max(shifted), 'pixel')} at most and {median(shifted):g} in the median" if shifted else ""
    if unknown := [name for name, shift in zip(layout.names, shifts, strict=True) if shift is None]:
        line += f". {len(unknown)} unchanged, without a clear displacement: {listed(unknown, 12)}"
    return line


def _align(layout: Layout, root: Path, copy: Path, index: int) -> Shift | None:
    """Write the shifted target and weight map of a pair. Return the displacement, or None if it is not clear."""
    files, shift = layout.provenance(index).files, None
    is_drawn = seen_in(files["source"], lambda image: image.n_channels > 1 and not image.palette, otherwise=False)
    is_ids = layout.n_classes > 0 and not is_drawn  # label maps drawn in colours have contours like photographs
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
    suffix, dtype = path.suffix.lower(), image.dtype
    if dtype != torch.uint8 and suffix not in (".npy", *TIFF_SUFFIXES) and (suffix, dtype) != (".png", torch.uint16):
        raise DataError(f"{like}: a {suffix} file with {str(dtype)[6:]} values cannot be written. Convert it to TIFF")
    with replacing(path) as unfinished:
        match suffix:
            case ".npy":
                with unfinished.open("wb") as file:
                    np.save(file, image.numpy())
            case _ if suffix in TIFF_SUFFIXES:
                write_tiff(unfinished, image, like)
            case ".png":
                write_png(unfinished, image)
            case ".jpg" | ".jpeg":
                write_jpeg(unfinished, image)
            case _:  # .bmp, .ppm, .webp
                pixels = image.permute(1, 2, 0).squeeze(2).contiguous().numpy()
                Image.fromarray(pixels).save(unfinished, Image.registered_extensions()[suffix], lossless=True)
