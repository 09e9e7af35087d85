"""The files of one sample -> its maps: what layouts share that keep each map in a file of its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from data.batch import DataError, LoadingError, Sample
from data.image_files import read_ids, read_rgb
from data.layout import Origin, checked_classes, size_problems


@dataclass(frozen=True)
class MapReader:
    """Reads samples whose files are known by what they hold: source, target, instances, features.

    n_classes: of the sources, label maps; 0 where they are RGB images. ignore_id: of pixels without a class.
    """

    n_classes: int
    ignore_id: int | None

    def read(self, name: str, paths: Mapping[str, Path]) -> Sample:
        """The maps at full size; DataError tells all that stands against the files."""
        problems, maps = list[str](), dict[str, Tensor]()
        for kind, path in paths.items():
            with _collected(problems):
                is_ids = kind == "instances" or (kind == "source" and self.n_classes > 0)
                maps[kind] = read_ids(path) if is_ids else read_rgb(path)
        for kind in ("instances", "target"):  # features may be of any size: 512p features serve 1024p too
            if kind in maps and "source" in maps:
                problems += size_problems(maps["source"], paths["source"], maps[kind], paths[kind])
        if self.n_classes and "source" in maps:
            with _collected(problems):
                maps["source"] = checked_classes(
                    maps["source"], paths["source"], n_classes=self.n_classes, ignore_id=self.ignore_id
                )
        if problems:
            raise DataError(*problems)
        return Sample(name, maps["source"], maps.get("instances"), maps.get("target"), maps.get("features"))

    def origin(self, paths: Mapping[str, Path]) -> Origin:
        """See Layout.origin."""
        return Origin(f"{list(paths)} {self.n_classes} {self.ignore_id}", list(paths.values()))


@contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """What stands against a file is kept, so that the next one is looked at too."""
    try:
        yield
    except LoadingError:
        raise
    except DataError as error:
        problems += error.problems
