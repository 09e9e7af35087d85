"""The check of sources that lie in several folders."""

from collections.abc import Sequence

from configs.schema.checks import require


def check_stack(folders: Sequence[str], n_channels: int, direction: str, *, has_labels: bool) -> None:
    """Raise ConfigError unless images of several source folders can be stacked.

    n_channels: of all images together, without the label maps of the first folder.
    """
    key, listed = "data.source_folder", f"[{','.join(folders)}]"
    require(len(folders) > 1 and all(folders), key, listed, "a folder, or at least two such as [A,B]")
    require(len(set(folders)) == len(folders), key, listed, "each folder once")
    expected = "AtoB with several folders in data.source_folder: name those of B there, and A as data.target_folder"
    require(direction == "AtoB", "data.direction", direction, expected)
    n_images, kind = (len(folders) - 1, "images beside label maps") if has_labels else (len(folders), "images")
    expected = f"at least {n_images}: data.source_folder names {n_images} folders of {kind}"
    require(n_channels >= n_images, "data.source_channels", n_channels, expected)
