"""Remove the samples kept by data.cache: python -m tools.clear_cache [--folder DIR]."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from configs import splits
from utils.cli import ArgumentParser, run_entry_point
from utils.files import expanded
from utils.log import log_to_console, logger


def main(argv: Sequence[str]) -> None:
    """Remove the caches that the command line names."""
    parser = ArgumentParser(description="Remove the samples kept by data.cache, of all runs.")
    default = splits.DISK_FOLDER
    parser.add_argument("--folder", type=Path, default=Path(default), metavar="DIR", help=f"default: {default}")
    arguments = parser.parse_args(argv)
    log_to_console(is_main=True)
    folders = [expanded(arguments.folder, "--folder") / splits.CACHE_NAME, *splits.memory_caches()]
    for folder in folders:
        if folder.is_dir():
            shutil.rmtree(folder)
            logger.info("removed %s", folder)
        else:
            logger.info("nothing in %s; name another folder of data.cache with --folder", folder)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
