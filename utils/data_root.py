"""Where a data set is, data.root. Imports nothing slow: a wrong one is reported before torch is there."""

from utils.paths import expanded


def data_root_problem(root: str) -> str | None:
    """Return why `root` is no folder of a data set, with the remedy; None where it is one. `~` is the user's home."""
    if "://" in root:  # not shown, because it may hold a password
        return "data.root: is an address. Mount it, and name the folder (docs/shards.md): data.root=FOLDER."
    folder = expanded(root, "data.root")
    if folder.is_file():
        return f"data.root: is a file: {root}. Name its folder: data.root=FOLDER."
    return None if folder.is_dir() else f"data.root: no such folder: {root}. Set data.root=FOLDER."
