"""Data sets: from the files of a layout, or from drawings, to batches on the device."""

from data.facades.dataset import SyntheticDayNight, SyntheticFacades
from data.layout import RegisteredLayout
from data.paired_folders import PairedFolders, SideBySide
from data.unpaired_folders import UnpairedFolders

LAYOUTS: dict[str, type[RegisteredLayout]] = {
    "synthetic_facades": SyntheticFacades,
    "paired_folders": PairedFolders,
    "side_by_side": SideBySide,
    "unpaired_folders": UnpairedFolders,
    "synthetic_day_night": SyntheticDayNight,
}
"""The layouts by the names that `data.layout` takes."""
