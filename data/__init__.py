"""Data sets. A layout reads or generates samples, and the loader combines samples into batches."""

from data.facades.dataset import SyntheticDayNight, SyntheticFacades
from data.layout import RegisteredLayout
from data.paired_folders import PairedFolders, SideBySide
from data.unpaired_folders import UnpairedFolders
from data.volumes import PairedVolumes, UnpairedVolumes

LAYOUTS: dict[str, type[RegisteredLayout]] = {
    "synthetic_facades": SyntheticFacades,
    "paired_folders": PairedFolders,
    "side_by_side": SideBySide,
    "unpaired_folders": UnpairedFolders,
    "paired_volumes": PairedVolumes,
    "unpaired_volumes": UnpairedVolumes,
    "synthetic_day_night": SyntheticDayNight,
}
"""Layout classes, by their names in the setting `data.layout`."""
