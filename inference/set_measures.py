"""Measures of translations without targets: as a set, against real images of the side that they are translated into."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

from configs.splits import has_split, open_split
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.load import LoadedGenerator
from inference.padding import collected, read_padded
from metrics.evaluator import Evaluator, Features
from utils.distributed import World


@dataclass
class SetMeasures:
    """Collects the features of images in one process, and compares those of all processes.

    of_sources: the evaluator of the source side. reals: the images of the other side, as sources.
    """

    evaluator: Evaluator
    of_sources: Evaluator
    reals: Layout
    _found: dict[tuple[str, int], Features] = field(default_factory=dict)

    def add(self, number: int, source: Tensor, fake: Tensor) -> None:
        """Add source `number` and its translation."""
        self._found["source", number] = self.of_sources.features(source, number)
        self._found["fake", number] = self.evaluator.features(fake, number)

    def add_reals(self, preprocessing: Preprocessing, world: World, problems: list[str], *, keeps_sizes: bool) -> None:
        """Add this process's share of the real images, sized as sources are.

        problems: collects those of images that cannot be read, which are left out.
        """
        for number in range(world.rank, len(self.reals), world.size):
            with collected(problems):
                image = read_padded(self.reals, preprocessing, number, keeps_size=keeps_sizes).sample.source
                self._found["real", number] = self.evaluator.features(image, number)

    def gather(self, world: World) -> dict[str, Any] | None:
        """Return the figures of the images of all processes; None without translations, or without real images.

        n_images, n_real: of translations, and of real images. whole: figures. floor, ceiling: see References.
        """
        found = {key: features for part in world.gather(self._found) for key, features in part.items()}
        in_order = [(key[0], found[key]) for key in sorted(found)]
        sources, fakes, reals = ([one for of, one in in_order if of == kind] for kind in ("source", "fake", "real"))
        if not fakes or not reals:
            return None
        counts, figures = {"n_images": len(fakes), "n_real": len(reals)}, self.evaluator.set_figures(fakes, reals)
        return {**counts, "whole": figures, **asdict(self.evaluator.references(sources, reals))}


def open_reals(loaded: LoadedGenerator, split: str) -> Layout | None:
    """Return the images of the target side of a split, as sources; None where there are none, or there are pairs."""
    config, data = loaded.config, loaded.config.data.reversed
    other = replace(config, data=replace(data, source_folder=loaded.stack or data.source_folder))
    has_reals = bool(config.method.declaration.metrics) and has_split(other, split)
    return open_split(other, split, needs_targets=False) if has_reals else None
