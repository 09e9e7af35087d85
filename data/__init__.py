"""Data sets: from the files of a layout, or drawn, to batches on the device."""

from data.facades.dataset import SyntheticDayNight, SyntheticFacades
from data.folder_store import FolderStore
from data.layout import RegisteredLayout
from data.paired_folders import PairedFolders, SideBySide
from data.store import Folder, Store
from data.tar_store import TarStore
from data.unpaired_folders import UnpairedFolders

LAYOUTS: dict[str, type[RegisteredLayout]] = {
    "synthetic_facades": SyntheticFacades,
    "paired_folders": PairedFolders,
    "side_by_side": SideBySide,
    "unpaired_folders": UnpairedFolders,
    "synthetic_day_night": SyntheticDayNight,
}
"""The layouts by the names that `data.layout` takes."""

STORES: tuple[type[Store], ...] = (TarStore, FolderStore)
"""The stores in the order in which `data_set_folder` tries them; the last one takes every `data.root`."""


def data_set_folder(root: str) -> Folder:
    """Return the folder of the data set that `data.root` names, in the first of STORES that takes it.

    Raises:
        DataError: there is no such data set.
    """
    return next(folder for store in STORES if (folder := store.opened(root)))
