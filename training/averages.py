"""Moving averages of the weights of networks that translate, and the statistics of batch norm that belong to them."""

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

N_BATCHES = 20  # batch norm's running mean (momentum 0.1) varies as much as a mean of 19 batches


class WeightAverage(AveragedModel):
    """A moving average of a network's weights, with copies of its buffers.

    torch's own update copies its count of updates to the device, and the host waits for that.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__(network, multi_avg_fn=get_ema_multi_avg_fn(decay))
        self.requires_grad_(False)

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Copy the weights of a network at the first update, and average them later. Copy its buffers."""
        ours: list[Tensor] = [*self.module.parameters()]
        theirs: list[Tensor] = [*model.parameters()]
        if self.n_averaged:  # this count is on the CPU
            assert self.multi_avg_fn
            self.multi_avg_fn(ours, theirs, 0)
        else:
            copy_all(ours, theirs)
        for kept, present in zip(self.module.buffers(), model.buffers(), strict=True):
            kept.copy_(present)
        self.n_averaged += 1


def make_averages(method: Method, decay: float) -> Averages:
    """Return an average of each network that translates, by its name, or no average if the decay is 0."""
    names = {translator.network for translator in method.translators.values()} if decay else set()
    return {name: WeightAverage(network.module, decay) for name, network in method.networks.items() if name in names}


def read_statistics_batches(averages: Averages, dataset: TrainingDataset, batch_size: int, world: World) -> list[Batch]:
    """Read the batches of this process for `estimate_statistics`, on the CPU; none if no average has batch norm.

    Read them before training, so that saving needs no data set. The samples are spread evenly over the data set.
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
    """Replace the running statistics of the averages by estimates from batches of training samples.

    The copied statistics of the network in training do not fit the averaged weights. Random numbers come from separate
    generators, so this has no effect on the training. SyncBatchNorm uses the batches of all processes.
    """
    for direction, translator in method.translators.items():
        conditioning = translator.facts.conditioning
        network = inference_network(averages[translator.network].module)  # no style encoder: styles are drawn
        settle_spectral_norm(network)
        with estimating_statistics(network), method.precision.autocast():
            for on_cpu in batches:
                batch = on_cpu.to(method.device)
                if direction == "BtoA":
                    batch = batch.exchanged()
                draw_latents(network, [image_seed(0, name) for name in batch.names])
                network(*conditioning.generator_inputs(batch, conditioning(batch)))
