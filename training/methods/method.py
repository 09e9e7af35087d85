"""The contract of a training method, the builder of its networks, and the base of the methods without pairs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.swa_utils import AveragedModel

from configs import build
from configs.schema import Config
from data.batch import Batch, Sample
from data.conditioning import Conditioning, weights_of_classes
from inference.predictor import Predictor
from losses.objective import PixelWeights
from models.style_encoder import inference_network
from training.methods.image_pool import ImagePool
from training.optimizer_group import OptimizerGroup, RunningMeans
from training.trained_network import Role, TrainedNetwork, Wrap
from training.validation import UnpairedValidation, Validation
from utils.device import Precision, choose_precision, compiled, cpu_has_avx2_alone
from utils.distributed import World
from utils.errors import ConfigError

StepBatches = Sequence[Sequence[Batch]]
"""uint8 batches on the device, for each update of the discriminator. The generator is updated from the last group."""

Averages = Mapping[str, AveragedModel]
"""Averages of the weights of the networks that translate, by the network's name."""


@dataclass(frozen=True)
class Translator:
    """The name of a network that translates in one direction, and the conditioning that computes its inputs."""

    network: str
    conditioning: Conditioning


@dataclass(frozen=True)
class Passes(Sequence[Any]):
    """The inputs of the passes of an update. The float tensors of a pass are computed when it begins."""

    batches: Sequence[Batch]
    inputs: Callable[[Batch], Any]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: Any) -> Any:
        return self.inputs(self.batches[index])


@dataclass
class Method(ABC):
    """A training method: networks by name, their optimizer groups, and their joint update.

    progress: Metric of a validation that measures progress. Lower is better.
    networks: Every trained network by its name in checkpoints, in the order of the groups.
    optimizers: Optimizer groups by name. Each trained network belongs to one group.
    translators: Networks that translate, by direction, the default direction first.
    means: Means of losses and other scalars since the last report, by tag.
    """

    progress: ClassVar[str]
    networks: Mapping[str, TrainedNetwork] = field(init=False)
    optimizers: Mapping[str, OptimizerGroup]
    translators: Mapping[str, Translator]
    precision: Precision
    means: RunningMeans

    def __post_init__(self) -> None:
        self.networks = {name: one for group in self.optimizers.values() for name, one in group.networks.items()}

    @property
    def device(self) -> torch.device:
        """The device of all networks."""
        return next(iter(self.optimizers.values())).skipped_steps.device

    @property
    def conditioning(self) -> Conditioning:
        """The conditioning of the default direction."""
        return next(iter(self.translators.values())).conditioning

    @property
    def pools(self) -> Sequence[tuple[ImagePool, str]]:
        """Pools in the order of their draws in a step, each with the name of the batch's tensor of the same size."""
        return ()

    def draw_ahead(self, batches: StepBatches) -> object:
        """Draw the CPU's random numbers of a step before it, because a CUDA graph cannot.

        Return the key of the graph for these draws. Return None, without a draw, if no graph can compute the step.
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
        """End a step after `draw_ahead`."""
        for pool, _ in self.pools:
            pool.settle()

    def step(self, batches: StepBatches) -> None:
        """Make one update from the batches of a step."""
        with ExitStack() as stack:
            for group in self.optimizers.values():
                stack.enter_context(group.undoing_statistics())
            self.update([Passes(passes, self.inputs) for passes in batches])

    @abstractmethod
    def inputs(self, batch: Batch) -> Any:
        """Return the float tensors of a pass, given a batch on the device."""

    @abstractmethod
    def update(self, groups: Sequence[Sequence[Any]]) -> None:
        """Update all networks. A group holds the inputs of the passes of one update of the discriminator."""

    @abstractmethod
    def losses(self, inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the losses of generators and discriminators, 0-d each, for one pass."""

    @abstractmethod
    def build_validation(self, config: Config, split: str, samples: Sequence[Sample], averages: Averages) -> Validation:
        """Return the validation of the main process on samples of a split, with the averages if there are any."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state in addition to networks, optimizers and random states, as plain types."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most methods have no state
        """Load a state. Missing parts start as in a new run."""

    def process_state(self) -> dict[str, Any]:
        """Return the state of this process in addition to random states, as plain types."""
        return {}

    def load_process_state(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most methods have none
        """Load the state that `process_state` returned in the process of this rank."""

    def predictor(self, config: Config, averages: Averages, direction: str | None = None) -> Predictor:
        """Return the predictor of a direction, by default the first, with the network's average if there is one."""
        translator = self.translators[direction or next(iter(self.translators))]
        facts = build.data_facts(config, direction)
        average = averages.get(translator.network)
        network = inference_network(average.module if average else self.networks[translator.network].module)
        shown, modules = config.log.activations, [name for name, _ in network.named_modules() if name]
        if shown is not None and shown not in modules:
            some = ", ".join(modules[:: max(1, len(modules) // 12)])
            raise ConfigError(f"log.activations: the generator has no module {shown!r}; some are {some}")
        return Predictor(
            generator=network,
            conditioning=translator.conditioning,
            precision=self.precision,
            device=self.device,
            colors=facts.class_colors,
            target_dtype=facts.target_dtype,
        )


def uses_cuda_graph(config: Config, world: World) -> bool:
    """Return whether a run repeats its steps as a CUDA graph. It needs a GPU, and a single process.

    Dropout in recomputed activations reads the GPU's random state, which a graph cannot do.
    """
    asks_for_state = config.train.activation_checkpointing and config.generator.dropout
    return config.train.cuda_graph and world.device.type == "cuda" and world.size == 1 and not asks_for_state


@dataclass(frozen=True)
class NetworkBuilder:
    """Moves networks to the device of `world`, in the precision of the settings.

    layout_on_cpu: Memory layout on a CPU.
    """

    config: Config
    world: World
    layout_on_cpu: torch.memory_format = torch.contiguous_format

    @property
    def precision(self) -> Precision:
        """The precision of the networks."""
        return choose_precision(self.config.amp.opt_level, self.config.amp.dtype, self.world.device)

    def network(self, module: nn.Module, role: Role, as_called: Wrap = lambda network: network) -> TrainedNetwork:
        """Return a network in training. If train.compile is set, a generator is compiled.

        as_called: Function that returns the module that training calls.
        """
        device, is_compiled = self.world.device, role == "generator" and self.config.train.compile
        module.to(device).to(memory_format=build.memory_format(device, self.layout_on_cpu))

        def wrap(network: nn.Module) -> nn.Module:
            network = as_called(network)
            return self.world.wrap(compiled(network, device) if is_compiled else network)

        # the first vectors of a projection are too short for low dtypes
        copy = module if role == "projection" else self.precision.compute_copy(module)
        return TrainedNetwork(module, copy, wrap, role)

    def group(self, networks: Mapping[str, TrainedNetwork]) -> OptimizerGroup:
        """Return networks with an optimizer and a GradScaler of their own."""
        settings = self.config.optimizer
        parameters = [parameter for network in networks.values() for parameter in network.module.parameters()]
        is_repeated, rate = uses_cuda_graph(self.config, self.world), settings.learning_rate
        adam = Adam(
            parameters,
            lr=torch.tensor(rate, device=parameters[0].device) if is_repeated else rate,  # a graph reads a tensor
            betas=(settings.betas[0], settings.betas[1]),
            fused=True,  # skips an update with broken gradients without asking the host
            capturable=is_repeated,
        )
        return OptimizerGroup(networks, adam, self.precision.make_scaler(), settings.max_gradient_norm)


def translators(config: Config) -> dict[str, Translator]:
    """Return the translators by direction, as the method declares them."""
    return {
        direction: Translator(network, build.data_facts(config, direction).conditioning)
        for direction, network in config.method.translators.items()
    }


class Pair(NamedTuple):
    """Images of two domains that do not belong together: (N, C, H, W) float32 in [-1, 1].

    outside: Weights of the sources' pixels. Translations may change pixels of weight 0. None: they may change all.
    """

    source: Tensor
    target: Tensor
    outside: PixelWeights | None = None


def layout_on_cpu() -> torch.memory_format:
    """Return the memory layout with the fastest training step without pairs on a CPU."""
    return torch.contiguous_format if cpu_has_avx2_alone() else torch.channels_last


@dataclass
class Unpaired(Method):
    """A method whose images of the two domains do not belong together."""

    progress = "swd"

    def inputs(self, batch: Batch) -> Pair:
        """Return the float tensors of a batch on its device."""
        images, labels = (self.conditioning(batch), self.conditioning.target(batch)), batch.labels
        if labels is None:
            return Pair(*images)
        weights = weights_of_classes(labels, self.conditioning.class_weights, *labels.shape[-2:])
        return Pair(*images, PixelWeights(weights))

    def build_validation(self, config: Config, split: str, samples: Sequence[Sample], averages: Averages) -> Validation:
        """Return the validation, which compares translations with real images as sets, in all trained directions."""
        evaluator = build.build_evaluator(config, self.device, len(samples))
        first, *others = (self.predictor(config, averages, direction) for direction in self.translators)
        return UnpairedValidation(
            split,
            samples,
            first,
            evaluator,
            logits=None,
            activations=config.log.activations,
            back=others[0] if others else None,
            of_sources=build.source_evaluator(config, evaluator),
        )
