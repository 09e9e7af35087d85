"""The files of translated images: as 8-bit RGB, or in the type and format of the targets."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from configs.schema import Config
from configs.stored_images import stored_forms
from data.files.array_file import write_npy
from data.files.image_files import read_rgb, write_png
from data.files.png_file import write_png16
from data.files.stored_images import StoredForm, read_stored
from data.files.tiff_file import write_tiff
from utils.atomic_file import path_in_errors


@dataclass(frozen=True)
class ImageStore:
    """Writes and reads translated images.

    form: of images that are not 8-bit RGB; None for those that are.
    suffix: of the files.
    scale: sides of a translated image, in those of its source.
    """

    form: StoredForm | None = None
    suffix: str = ".png"
    scale: float = 1.0

    def write(self, path: Path, image: Tensor, source: Path | None) -> None:
        """Write a (C, H, W) image and create its folders; a TIFF gets the georeferencing of its source."""
        if self.form is None or (self.suffix == ".png" and image.dtype == torch.uint8):
            write_png(path, image)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = image.numpy()
        with path_in_errors(path):
            match self.suffix:
                case ".png":
                    write_png16(path, pixels)
                case ".npy":
                    write_npy(path, pixels)
                case _:
                    write_tiff(path, pixels, like=source, scale=self.scale)

    def read(self, path: Path) -> Tensor:
        """Read a translated image as it was written.

        Raises:
            DataError: the file is damaged, or of another form.
        """
        return read_rgb(path) if self.form is None else read_stored(path, self.form)


def image_store(config: Config) -> ImageStore:
    """Return the files of images translated into the targets of a data set."""
    data, scale = config.data, config.generator.scale
    form = stored_forms(data).get("target")
    if form is None:
        return ImageStore()
    return ImageStore(form, "." + (data.target_files or "uint8.npy").partition(".")[2], scale)
