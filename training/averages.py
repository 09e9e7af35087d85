"""Moving averages of the weights of networks that translate, and the statistics of batch norm that belong to them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from configs import build
from configs.schema import Config
from data.batch import Batch, DataError, Sample
from data.layout import Layout
from data.loader import SampleKey, TrainingDataset
from inference.sampling import image_seed
from models.latent_inputs import draw_latents
from models.running_statistics import batch_norms, estimating_statistics
from models.spectral_norm import settle_spectral_norm
from models.style_encoder import inference_network
from training.methods.method import Averages, Method, Translator
from utils.distributed import World
from utils.precision import Precision
from utils.torch_private import copy_all

N_BATCHES = 20  # a running mean with batch norm's momentum of 0.1 has the variance of one of 19


class WeightAverage(AveragedModel):
    """A copy of a network whose weights `update_parameters` pulls towards the network's, and whose buffers it copies.

    So it has the network's vectors of spectral norm; before it is used, models.spectral_norm settles them. torch's own
    update copies its count of updates to the device, and makes the host wait for that.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__(network, multi_avg_fn=get_ema_multi_avg_fn(decay))
        self.requires_grad_(False)

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Copy the weights of a network at the first update, and average them later; copy its buffers."""
        ours: list[Tensor] = [*self.module.parameters()]
        theirs: list[Tensor] = [*model.parameters()]
        if self.n_averaged:  # it is on the CPU
            assert self.multi_avg_fn
            self.multi_avg_fn(ours, theirs, 0)
        else:
            copy_all(ours, theirs)
        for kept, present in zip(self.module.buffers(), model.buffers(), strict=True):
            kept.copy_(present)
        self.n_averaged += 1


@dataclass
class AverageStatistics:
    """Estimates the running statistics of an average of weights from batches of training samples.

    The average has those of the network in training, which belong to its weights. The batches are the same each time;
    random numbers come from generators of their own, so that the training does not depend on when this is done. All
    processes take part, each with batches of its own: SyncBatchNorm computes with those of all of them.

    network: the average without its style encoder, since prediction draws styles. keys: samples of each batch of this
        process.
    """

    network: nn.Module
    dataset: TrainingDataset
    keys: Sequence[Sequence[SampleKey]]
    translator: Translator
    precision: Precision
    device: torch.device
    _batches: list[Batch] = field(init=False, default_factory=list)
    _step: int | None = field(init=False, default=None)

    def read(self) -> None:
        """Read the batches into memory before training, so that saving works even when the data set cannot be read.

        Raises:
            DataError: a sample cannot be used.
        """
        for keys in self.keys:
            samples: list[Sample] = []
            for key in keys:
                sample = self.dataset[key]
                if isinstance(sample, DataError):
                    raise sample
                samples.append(sample)
            self._batches.append(Batch.of(samples))

    @torch.no_grad()
    def estimate(self, step: int) -> None:
        """Replace the statistics by those of the average after `step`, unless that is done; after `read`."""
        if step == self._step:
            return
        assert self._batches
        settle_spectral_norm(self.network)
        with estimating_statistics(self.network), self.precision.autocast():
            for batch in self._batches:
                draw_latents(self.network, [image_seed(0, name) for name in batch.names])
                self.network(*self.translator.inputs(batch.to(self.device)))
        self._step = step


def make_averages(method: Method, decay: float) -> Averages:
    """Return an average of each network that translates, by its name; none where the decay is 0."""
    names = {translator.network for translator in method.translators.values()} if decay else set()
    return {name: WeightAverage(network.module, decay) for name, network in method.networks.items() if name in names}


def build_average_statistics(
    config: Config, world: World, layout: Layout, method: Method, averages: Averages
) -> list[AverageStatistics]:
    """Return what estimates the statistics of the averages that have batch norm.

    layout: the training samples, over which those of the batches are spread evenly.
    """
    size, translators = config.train.batch_size, {one.network: one for one in method.translators.values()}
    n_batches = min(N_BATCHES, len(layout) // (size * world.size))
    n_samples = n_batches * size * world.size
    begins = [(batch * world.size + world.rank) * size for batch in range(n_batches)]
    keys = [[SampleKey(0, n * len(layout) // n_samples) for n in range(begin, begin + size)] for begin in begins]
    return [
        AverageStatistics(
            inference_network(average.module),
            TrainingDataset(layout, build.build_preprocessing(config), config.run.seed, config.data.on_bad_sample),
            keys,
            translators[name],
            method.precision,
            world.device,
        )
        for name, average in averages.items()
        if batch_norms(average.module)
    ]
