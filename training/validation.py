"""What a run shows of itself: the same few samples each time, as pictures, figures and activations."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.image_files import write_png
from inference.predictor import Predictor
from metrics.evaluator import TITLES, Evaluator, Summary, shown
from training.json_lines import JsonLines
from training.tensorboard import TensorBoardWriter
from utils.gallery import Row, write_gallery
from utils.image_grid import difference, picture_table
from utils.log import logger

N_SHOWN_CHANNELS = 16


@dataclass(frozen=True)
class Validation:
    """Translates `samples` and shows the results in TensorBoard and on the page web/index.html of the run's folder.

    evaluator: what measures them. n_shown: how many of them are shown; the others are only measured.
    activations: the name of a module of the generator whose output is shown too, or None.
    """

    samples: list[Sample]
    predictor: Predictor
    evaluator: Evaluator
    n_shown: int
    activations: str | None = None

    def run(self, board: TensorBoardWriter, page: "SamplePage", step: int) -> Summary:
        """Translate, show, and return the figures of all samples together."""
        rows, measured = [], []
        for number, sample in enumerate(self.samples):
            assert sample.target is not None
            with self._watched_activations() as activations:
                fake = self.predictor.translate(Batch.of([sample]))[0]
            if activations and number == 0:
                board.write_image(f"activations/{self.activations}", channel_table(activations[0]), step)
            measured.append(self.evaluator.measure(fake, sample.target))
            if number >= self.n_shown:
                continue
            source = self.predictor.show_source(sample)
            rows.append([source, fake, sample.target])
            pictures = {"source": source, "translated": fake, "target": sample.target}
            pictures["difference"] = difference(fake, sample.target)
            page.add(step, number, sample.name, pictures, shown(measured[-1].figures))
        board.write_image("validation/source_translated_target", picture_table(rows), step)
        page.write()
        return self.evaluator.summarize(measured)

    @contextmanager
    def _watched_activations(self) -> Iterator[list[Tensor]]:
        """Gathers what the chosen module gives."""
        seen: list[Tensor] = []
        if self.activations is None:
            yield seen
            return
        module = self.predictor.generator.get_submodule(self.activations)
        handle = module.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
        try:
            yield seen
        finally:
            handle.remove()


def channel_table(activations: Tensor) -> Tensor:
    """The first channels of (1, C, H, W) activations, each from its least to its greatest value, as one uint8 image."""
    channels = activations[0, :N_SHOWN_CHANNELS].detach().float().cpu()
    low, high = (bound(channels, dim=(1, 2), keepdim=True) for bound in (torch.amin, torch.amax))
    grey = ((channels - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)
    images = [channel.expand(3, -1, -1) for channel in grey]
    return picture_table([images[start : start + 4] for start in range(0, len(images), 4)])


def check_module(generator: nn.Module, name: str | None) -> None:
    """Raise ValueError, with the modules that there are, unless `name` is None or that of one."""
    names = [module_name for module_name, _ in generator.named_modules() if module_name]
    if name is not None and name not in names:
        raise ValueError(
            f"the generator has no module {name!r}; some are {', '.join(names[:: max(1, len(names) // 12)])}"
        )


class SamplePage:
    """The page index.html of a folder: the samples of all validations, the latest first.

    A run that goes on from an earlier step continues it; a disk that fails costs the page, not the run.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        self._folder = folder
        self._rows = JsonLines(folder / "rows.jsonl", first_step, keeps_rows=True)

    def add(
        self, step: int, number: int, name: str, pictures: Mapping[str, Tensor], figures: Mapping[str, float]
    ) -> None:
        """Write the pictures, (3, H, W) uint8, of sample `number`; source and target are the same at each step."""
        files = {kind: f"images/sample_{number}_{kind}_{step:08d}.png" for kind in ("translated", "difference")}
        files |= {kind: f"images/sample_{number}_{kind}.png" for kind in ("source", "target")}
        files = {kind: files[kind] for kind in pictures}  # in the order of the page's columns
        with _forgiving_disk():
            for kind, picture in pictures.items():
                write_png(self._folder / files[kind], picture)
            self._rows.append(step, {"name": name, "images": files, "metrics": dict(figures)})

    def write(self) -> None:
        """Write the page."""
        rows = [
            Row(
                f"{row['name']}, step {row['step']}",
                row["images"],
                metrics={"step": row["step"], **{TITLES.get(name, name): v for name, v in row["metrics"].items()}},
            )
            for row in reversed(self._rows.rows)
        ]
        with _forgiving_disk():
            write_gallery(self._folder / "index.html", rows, self._folder.parent.name)


@contextmanager
def _forgiving_disk() -> Iterator[None]:
    """A disk that fails costs the page, not the run."""
    try:
        yield
    except OSError as error:
        logger.warning("the page of validation samples is not whole: %s", error)
