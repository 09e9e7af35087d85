"""Layout `side_by_side`: pairs in one image file, A on the left and B on the right, as pix2pix stores them."""

from pathlib import Path
from typing import Self

from data.batch import DataError, Sample
from data.files.image_files import find_images, read_rgb
from data.folder_store import local_folder
from data.layout import PairingError, Provenance, RegisteredLayout
from data.store import Folder


class SideBySide(RegisteredLayout):
    """RGB pairs from the two halves of each image of a folder.

    folder: of a store; a path is that of this machine.
    a_to_b: whether A, the left half, is the source.

    Raises:
        PairingError: the folder is missing or empty, or two files have the same name.
    """

    def __init__(self, *, folder: Folder | Path, a_to_b: bool) -> None:
        self._a_to_b = a_to_b
        problems: list[str] = []
        self.folders = [local_folder(folder)]
        self._images = find_images(self.folders[0], problems)
        self.names = sorted(self._images)
        if problems:
            raise PairingError(*problems, rest=self)

    @classmethod
    def open(cls, split: str, *, root: Folder, direction: str) -> Self:
        """Return a split of the data set, the folder ROOT/SPLIT. See RegisteredLayout."""
        return cls(folder=root / split, a_to_b=direction == "AtoB")

    @classmethod
    def has_split(cls, split: str, *, root: Folder) -> bool:
        """Return whether the data set has the folder of a split. See RegisteredLayout."""
        return root.store.has(root / split)

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return Provenance(f"halves {self._a_to_b}", [self._images[self.names[index]]])

    def read(self, index: int) -> Sample:
        """Read both halves of image `index` at full size.

        Raises:
            DataError: the file cannot be used, or its width is odd.
        """
        image = self._images[self.names[index]]
        pair = read_rgb(*image.folder.store.fetched([image]))
        width = pair.shape[-1]
        if width % 2:
            raise DataError(f"{image}: is {width} pixels wide, expected two halves of equal width")
        a, b = pair.split(width // 2, dim=-1)
        source, target = (a, b) if self._a_to_b else (b, a)
        return Sample(name=self.names[index], source=source, instances=None, target=target)
