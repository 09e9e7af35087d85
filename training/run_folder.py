"""The folder of a run: config.yaml, log.txt, TensorBoard's events, checkpoints."""

from pathlib import Path


def archive_run(run_folder: Path) -> Path | None:
    """Rename a run, so that a new one can take its name and nothing is lost; return its new place, None without a run.

    Raises:
        FileExistsError: the folder holds files, but no run.
    """
    if not run_folder.is_dir() or not any(run_folder.iterdir()):
        return None
    if not any((run_folder / name).exists() for name in ("config.yaml", "log.txt")):
        raise FileExistsError(17, "it holds files that are not of a run", str(run_folder))
    number = 1
    while (aside := run_folder.with_name(f"{run_folder.name}.{number}")).exists():
        number += 1
    run_folder.rename(aside)
    return aside
