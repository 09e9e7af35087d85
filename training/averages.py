"""Moving averages of the generators' weights, and batch norm statistics for the averaged generators."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from data.batch import Batch, DataError, Sample
from data.loader import SampleKey, TrainingDataset
from models.latent_inputs import draw_latents, image_seed
from models.running_statistics import batch_norms, estimating_statistics
from models.spectral_norm import settle_spectral_norm
from models.style_encoder import inference_network
from training.methods.method import Averages, Method
from utils.distributed import World
from utils.torch_private import copy_all

N_BATCHES = 20  # the running mean of batch norm (momentum 0.1) averages about this many batches


class WeightAverage(AveragedModel):
    """A moving average of a network's weights, with copies of its buffers.

    Unlike torch's class, this class counts its updates on the CPU, so that the host does not wait for the device.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__(network, multi_avg_fn=get_ema_multi_avg_fn(decay))
        self.requires_grad_(False)

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Add the weights of `model` to the average. The first update copies the weights. Buffers are always copied."""
        averages: list[Tensor] = [*self.module.parameters()]
        weights: list[Tensor] = [*model.parameters()]
        if self.n_averaged:
            assert self.multi_avg_fn
            self.multi_avg_fn(averages, weights, 0)
        else:
            copy_all(averages, weights)
        for ours, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
            ours.copy_(buffer)
        self.n_averaged += 1


def make_averages(method: Method, decay: float) -> Averages:
    """Return a moving average of each generator, by the generator's name. Return {} if `decay` is 0."""
    names = {translator.network for translator in method.translators.values()} if decay else set()
    return {name: WeightAverage(network.module, decay) for name, network in method.networks.items() if name in names}


def read_statistics_batches(averages: Averages, dataset: TrainingDataset, batch_size: int, world: World) -> list[Batch]:
    """Return the batches of this process for `estimate_statistics`, on the CPU, or [] if no average has batch norm.

    Call this before training, so that saving a checkpoint reads no data. Samples are spread evenly over the data set.
    """
    if not any(batch_norms(average.module) for average in averages.values()):
        return []
    n_batches = min(N_BATCHES, len(dataset.layout) // (batch_size * world.size))
    n_samples = n_batches * batch_size * world.size
    batches = []
    for number in range(n_batches):
        begin, samples = (number * world.size + world.rank) * batch_size, list[Sample]()
        for place in range(begin, begin + batch_size):
            sample = dataset[SampleKey(0, place * len(dataset.layout) // n_samples)]
            if isinstance(sample, DataError):
                raise sample
            samples.append(sample)
        batches.append(Batch.of(samples))
    return batches


@torch.no_grad()
def estimate_statistics(method: Method, averages: Averages, batches: Sequence[Batch]) -> None:
    """Estimate the batch norm statistics of the averaged generators from batches of training samples.

    Statistics copied from the trained network do not fit the averaged weights. The estimate uses its own random
    generators, so it does not change the training. SyncBatchNorm uses the batches of all processes.
    """
    for direction, translator in method.translators.items():
        conditioning = translator.facts.conditioning
        network = inference_network(averages[translator.network].module)  # without the style encoder: styles are random
        settle_spectral_norm(network)
        with estimating_statistics(network), method.precision.autocast():
            for on_cpu in batches:
                batch = on_cpu.to(method.device)
                if direction == "BtoA":
                    batch = batch.exchanged()
                draw_latents(network, [image_seed(0, name) for name in batch.names])
                network(*conditioning.generator_inputs(batch, conditioning(batch)))
