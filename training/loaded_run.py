"""Loads a trained run for other programs: its networks, predictor and losses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from configs import build
from configs.schema import Config
from configs.splits import open_split
from data.batch import Batch, DataError, Sample
from data.loader import read_fixed
from inference.load import load_from, load_generator
from inference.predictor import Predictor
from inference.request import Request
from inference.requested_predictor import build_predictor, with_clusters
from training.methods import METHODS
from training.methods.method import LazySequence, Method
from training.run import build_validation
from utils.checkpoint import check_training_state, load_checkpoint
from utils.device import choose_device
from utils.distributed import World


@dataclass(frozen=True)
class Run:
    """A run that has ended.

    metrics: Finite metrics of the last validation, by name.
    best: Checkpoint with the best validation, or None.
    best_metrics: Finite metrics of that validation, by name.
    """

    folder: Path
    metrics: Mapping[str, float]
    best: Path | None
    best_metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Losses:
    """The losses of one pass.

    generator, discriminator: Weighted sums over all directions, 0-d. They can share a graph, so the first backward pass
        needs retain_graph=True. backward() fills the gradients of all networks, unless its argument `inputs` is set.
    terms: Unweighted losses and other scalars, by their tags in metrics.jsonl.
    """

    generator: Tensor
    discriminator: Tensor
    terms: dict[str, float]


@dataclass(frozen=True)
class LoadedRun:
    """A run with the weights of one of its checkpoints.

    predictor: Predictor that test.py uses. It has the moving average of the weights if there is one.
    method: Training method with all trained networks.
    """

    file: Path
    config: Config
    step: int
    predictor: Predictor
    method: Method

    @property
    def networks(self) -> dict[str, nn.Module]:
        """The trained networks by name, in training mode."""
        return {name: network.module for name, network in self.method.networks.items()}

    def batch(self, split: str, indices: Iterable[int] = (0,)) -> Batch:
        """Return samples of a split with their targets, on the device. Raise DataError for an index out of range."""
        samples, wanted = self._samples(split), list(indices)
        if not wanted or any(index not in range(len(samples)) for index in wanted):
            raise DataError(f"split {split}: indices are {wanted}, expected at least one from 0 to {len(samples) - 1}")
        return Batch.of([samples[index] for index in wanted]).to(self.method.device)

    def evaluate(self, split: str) -> dict[str, float]:
        """Translate a split. Return its metrics by name, as `test.py` computes them.

        Unpaired images are compared as sets, with `swd` and the metrics in metrics.extra. Raise UserError if a file
        cannot be used, or if the weights of a metric are not available.
        """
        samples = self._samples(split)
        validation = build_validation(self.config, self.method, split, samples, {})
        fakes = (self.predictor.translate(Batch.of([sample]))[0] for sample in samples)
        return validation.evaluator.summarize([validation.measure(*numbered) for numbered in enumerate(fakes)]).figures

    def _samples(self, split: str) -> Sequence[Sample]:
        layout = open_split(self.config, split, needs_targets=True)
        preprocessing = build.build_preprocessing(self.config)
        return LazySequence(range(len(layout)), lambda index: read_fixed(layout, preprocessing, index))

    def losses(self, batch: Batch) -> Losses:
        """Return the losses of all networks for a batch, with all penalties, but without the factor `Penalty.every`."""
        generator, discriminator = self.method.losses(self.method.inputs(batch))
        return Losses(generator, discriminator, self.method.means.flush(World(0, 1, self.method.device)))


def load(run: Run | Path | str, device: Literal["auto", "cpu", "cuda"] = "auto") -> LoadedRun:
    """Load a trained run.

    run: Result of `train`, folder of the run, or one of its checkpoints.

    Raise UserError if the checkpoint, the weights of a loss or the device cannot be used.
    """
    chosen = choose_device(device, option="device=")
    own_gpus = [chosen] if chosen.type == "cuda" else []
    with torch.random.fork_rng(own_gpus):  # building a network draws random weights
        file, loaded = load_from(run.folder if isinstance(run, Run) else Path(run), load_generator)
        state = load_checkpoint(file)
        method = METHODS[loaded.config.method.name](loaded.config, World(0, 1, chosen))
    check_training_state(state, file, needed_keys=[f"networks.{name}" for name in method.networks])
    for name, network in method.networks.items():
        network.load_weights(state["networks"][name])
    predictor = build_predictor(with_clusters(loaded, Request()), chosen, Request())
    return LoadedRun(file, loaded.config, state["step"], predictor, method)
