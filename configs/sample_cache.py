"""The cache of decoded samples, as section `data` asks for it."""

import hashlib
import os
import tempfile
from pathlib import Path

from configs.build import build_preprocessing
from configs.schema import Config
from data.cache import CachedLayout, SampleCache
from data.layout import Layout
from utils.errors import ConfigError
from utils.paths import expanded

DISK_FOLDER = "~/.cache/pairgan"
CACHE_NAME = "samples"
SHARED_MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
_MEMORY_CACHE = f"pairgan-{os.getuid() if hasattr(os, 'getuid') else 0}"


def build_training_layout(config: Config, layout: Layout, run_folder: Path) -> Layout:
    """Return the training split, behind a cache if the settings ask for one, whose folder is made."""
    if folder := cache_folder(config, run_folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"data.cache: cannot make {folder}: {error.strerror}") from error
    return build_cached_layout(config, layout, run_folder) or layout


def build_cached_layout(config: Config, layout: Layout, run_folder: Path) -> Layout | None:
    """Return the training split, each side of it behind the cache; None without one."""
    folder = cache_folder(config, run_folder)
    if folder is None:
        return None
    cache = SampleCache(folder, spare_share=0.5 if config.data.cache == "memory" else 0.1)
    preprocessing = build_preprocessing(config)
    return layout.by_side(lambda side: CachedLayout(side, preprocessing, cache))


def cache_folder(config: Config, run_folder: Path) -> Path | None:
    """Return the folder of cached samples, None without a cache; the processes of one run share their memory."""
    match config.data.cache:
        case "none":
            return None
        case "memory":
            run = hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:16]
            return SHARED_MEMORY / f"{_MEMORY_CACHE}-{run}"
        case place:
            return expanded(DISK_FOLDER if place == "disk" else place, "data.cache") / CACHE_NAME


def memory_caches() -> list[Path]:
    """Return the folders of data.cache=memory that killed runs of this user have left."""
    return sorted(SHARED_MEMORY.glob(f"{_MEMORY_CACHE}-*"))
