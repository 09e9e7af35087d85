"""Data sets: from layouts on disk, or drawn, to batches on the device."""

from data.facades.dataset import SyntheticFacades
from data.layout import RegisteredLayout
from data.paired_folders import PairedFolders
from data.side_by_side import SideBySide

LAYOUTS: dict[str, type[RegisteredLayout]] = {
    "synthetic_facades": SyntheticFacades,
    "paired_folders": PairedFolders,
    "side_by_side": SideBySide,
}
"""The layouts by the names that `data.layout` takes."""
