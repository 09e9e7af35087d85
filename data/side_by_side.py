"""Pairs in one image file, A on the left and B on the right: pix2pix's layout."""

from pathlib import Path

from data.batch import DataError, Sample
from data.image_files import find_images, read_rgb
from data.layout import Origin, PairingError


class SideBySide:
    """RGB pairs from the two halves of each image of a folder.

    a_to_b: whether A, the left half, is the source.

    Raises:
        PairingError: the folder is missing or empty, or two files have the same name.
    """

    def __init__(self, *, folder: Path, a_to_b: bool) -> None:
        self.n_classes = 0
        self._a_to_b = a_to_b
        problems: list[str] = []
        self._paths = find_images(folder, problems)
        self.names = sorted(self._paths)
        self.folders = [folder]
        self.files = list(self._paths.values())
        if problems:
            raise PairingError(*problems, rest=self)

    def __len__(self) -> int:
        return len(self.names)

    def origin(self, index: int) -> Origin:
        """See Layout."""
        return Origin(f"halves {self._a_to_b}", [self._paths[self.names[index]]])

    def read(self, index: int) -> Sample:
        """Both halves of image `index` at full size; DataError where the file cannot be used."""
        path = self._paths[self.names[index]]
        pair = read_rgb(path)
        width = pair.shape[-1]
        if width % 2:
            raise DataError(f"{path}: is {width} pixels wide, expected two halves of equal width")
        a, b = pair.split(width // 2, dim=-1)
        source, target = (a, b) if self._a_to_b else (b, a)
        return Sample(name=self.names[index], source=source, instances=None, target=target)
