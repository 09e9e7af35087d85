"""The interface of training methods, and the base class of unpaired methods."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from configs.data_facts import DataFacts
from data.batch import Batch
from data.conditioning import Conditioning, weights_of_classes
from inference.predictor import Predictor
from losses.objective import DiscriminatorObjective, PixelWeights
from metrics.evaluator import Evaluator
from models.style_encoder import inference_network
from training.methods.image_pool import ImagePool
from training.optimizer_group import OptimizerGroup, RunningMeans
from training.trained_network import TrainedNetwork
from training.validation import UnpairedValidation, Validation
from utils.device import Precision

StepBatches = Sequence[Sequence[Batch]]
"""Groups of uint8 batches on the device, one group for each discriminator update. The generator uses the last group."""

Averages = Mapping[str, AveragedModel]
"""Moving averages of the generators' weights, by the generator's name."""


@dataclass(frozen=True)
class Translator:
    """The name of the network that translates in one direction, and facts about the images of this direction."""

    network: str
    facts: DataFacts


@dataclass(frozen=True)
class LazySequence(Sequence[Any]):
    """A sequence that computes each item when it is read, because all items together would need much memory."""

    items: Sequence[Any]
    compute: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.compute(self.items[index])


@dataclass
class Method(ABC):
    """A training method: networks by name, their optimizer groups, and their joint update.

    progress: Name of the metric that shows whether a validation is better than earlier ones. Lower is better.
    networks: Every trained network by its name in checkpoints, in the order of the optimizer groups.
    optimizers: Optimizer groups by name. Each trained network belongs to one group.
    translators: Generators by direction, beginning with the default direction.
    means: Means of losses and other scalars since the last report, by tag.
    repeats_steps: Whether steps may be repeated as a CUDA graph.
    discriminator_objective: Loss of all discriminators.
    """

    networks: Mapping[str, TrainedNetwork] = field(init=False)
    optimizers: Mapping[str, OptimizerGroup]
    translators: Mapping[str, Translator]
    precision: Precision
    means: RunningMeans
    repeats_steps: bool = field(default=False, kw_only=True)
    discriminator_objective: DiscriminatorObjective = field(kw_only=True)
    progress: str = field(default="l1", kw_only=True)

    def __post_init__(self) -> None:
        self.networks = {name: one for group in self.optimizers.values() for name, one in group.networks.items()}

    @property
    def device(self) -> torch.device:
        """The device of all networks."""
        return next(iter(self.optimizers.values())).skipped_steps.device

    @property
    def conditioning(self) -> Conditioning:
        """The conditioning of the default direction."""
        return next(iter(self.translators.values())).facts.conditioning

    @property
    def pools(self) -> Sequence[tuple[ImagePool, str]]:
        """The image pools in order of use, each with the map ("source" or "target") that has the size of its images."""
        return ()

    def draw_ahead(self, batches: StepBatches) -> object:
        """Draw the random numbers of a step on the CPU before the step, because a CUDA graph cannot draw them.

        Return the key of the graph that fits these numbers. Draw nothing and return None if no graph can run the step.
        """
        has_one_image = [[len(batch.names) for batch in group] for group in batches] == [[1]]
        sides = [batches[0][0].maps[name].shape[-2:] for _, name in self.pools]
        if self.pools and not has_one_image:
            return None
        if not all(pool.can_draw_ahead(size) for (pool, _), size in zip(self.pools, sides, strict=True)):
            return None
        for pool, _ in self.pools:
            pool.draw_ahead()
        return ()

    def settle(self) -> None:
        """Finish a step that `draw_ahead` has prepared."""
        for pool, _ in self.pools:
            pool.settle()

    def begin_step(self, step: int, planned_steps: int) -> None:
        """Set the number of the next step, from 0. Tensors that depend on it change in place, for CUDA graphs."""
        self.discriminator_objective.step = step

    def step(self, batches: StepBatches) -> None:
        """Update all networks from the batches of a step."""
        with ExitStack() as stack:
            for group in self.optimizers.values():
                stack.enter_context(group.undoing_statistics())
            self.update([LazySequence(passes, self.inputs) for passes in batches])

    @abstractmethod
    def inputs(self, batch: Batch) -> Any:
        """Return the float tensors of a pass, given a batch on the device."""

    @abstractmethod
    def update(self, groups: Sequence[Sequence[Any]]) -> None:
        """Update all networks. A group holds the inputs for one discriminator update, with an item for each pass."""

    @abstractmethod
    def losses(self, inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the losses of generators and discriminators, 0-d each, for one pass."""

    @abstractmethod
    def build_validation(self, averages: Averages, of_sources: Evaluator, **shared: Any) -> Validation:
        """Return the validation for the main process. It uses the averaged generators if there are any.

        of_sources: Evaluator for images of the source domain.
        shared: The arguments of `Validation` that do not depend on the method.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the method's state without networks, optimizers and random states, as plain types."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most methods have no state
        """Load a state. Missing parts start as in a new run."""

    def process_state(self) -> dict[str, Any]:
        """Return the method's state that differs between processes, without random states, as plain types."""
        return {}

    def load_process_state(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most methods have none
        """Load the state that `process_state` returned in the process with the same rank."""

    def predictor(self, averages: Averages, direction: str | None = None) -> Predictor:
        """Return the predictor of a direction, by default the first. It uses the network's average if there is one."""
        translator = self.translators[direction or next(iter(self.translators))]
        average = averages.get(translator.network)
        return Predictor(
            generator=inference_network(average.module if average else self.networks[translator.network].module),
            conditioning=translator.facts.conditioning,
            precision=self.precision,
            device=self.device,
            colors=translator.facts.class_colors,
            target_dtype=translator.facts.target_dtype,
        )


class Pair(NamedTuple):
    """Images of two domains, which are not paired: (N, C, H, W) float32 in [-1, 1].

    outside: Weights of the sources' pixels that translations must keep. None: translations can change all pixels.
    """

    source: Tensor
    target: Tensor
    outside: PixelWeights | None = None


@dataclass
class Unpaired(Method):
    """A method for unpaired images of two domains."""

    progress: str = field(default="swd", kw_only=True)

    def inputs(self, batch: Batch) -> Pair:
        """Return the float tensors of a batch on its device."""
        images, labels = (self.conditioning(batch), self.conditioning.target(batch)), batch.labels
        if labels is None:
            return Pair(*images)
        weights = weights_of_classes(labels, self.conditioning.class_weights, *labels.shape[-2:])
        return Pair(*images, PixelWeights(weights))

    def build_validation(self, averages: Averages, of_sources: Evaluator, **shared: Any) -> Validation:
        """Return the validation. It compares translations with real images as sets, in all trained directions."""
        first, *others = (self.predictor(averages, direction) for direction in self.translators)
        back = others[0] if others else None
        return UnpairedValidation(predictor=first, logits=None, back=back, of_sources=of_sources, **shared)
