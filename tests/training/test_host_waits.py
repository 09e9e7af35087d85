"""A step has all tensors on the device, and the host never waits for a value. This is tested without a GPU.

On torch's meta device, a CPU tensor among others is an error, and so is reading a value. The meta device has no
autocast, so the opt levels are tested on the CPU. On a GPU torch itself watches.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from configs.load import config_from_dict
from configs.schema import Config, LossConfig
from data.batch import Batch
from losses.diffaugment import DRAWS
from models import DISCRIMINATORS, GENERATORS
from tests.runs import ON_GPU
from training.averages import make_averages
from training.methods import METHODS
from utils.distributed import World

CPU, META = torch.device("cpu"), torch.device("meta")
pytestmark = pytest.mark.usefixtures("cached_vgg19")
TINY: dict[str, Any] = {
    "data": {"root": "x", "layout": "paired_folders", "n_classes": 5, "instance_edges": True},
    "generator": {"base_channels": 4, "n_downsamplings": 2, "n_blocks": 1, "hidden_channels": 4},
    "discriminator": {"base_channels": 4, "n_layers": 2},
    "loss": {"perceptual": 0},
    "optimizer": {"max_gradient_norm": 1},
    "train": {"ema_decay": 0.9},
    "amp": {"opt_level": "O0"},
}
SPADE = ["generator.name=spade", "generator.n_upsamplings=3", "generator.spectral_norm=true"]
UNPAIRED = ["data.layout=unpaired_folders", "data.n_classes=0", "data.instance_edges=false", "loss.feature_matching=0"]
CUT = ["method.name=contrastive", *UNPAIRED, "contrastive.n_patches=16"]
OUTSIDE_MASK = ["loss.outside_mask=1", "loss.class_weights={1: 0}"]
MOVED, CUT_OUT = "augmentation.policy=[color,translation]", "augmentation.policy=[color,translation,cutout]"

CASES: dict[str, list[str]] = {
    "pix2pixHD": [
        *("loss.perceptual=10", "loss.l1=10", "loss.fine_chroma=10"),
        *("loss.ms_ssim=20", "loss.shift_reach=2", "loss.class_weights={1: 0.5}"),
        *("features.n_channels=3", "features.n_downsamplings=2", "train.pool_size=1"),
    ],
    "pix2pix": [
        *("data.n_classes=0", "data.instance_edges=false", "generator.name=unet", "generator.n_downsamplings=5"),
        *("generator.norm=batch", "generator.dropout=true", "discriminator.name=pixel", "discriminator.norm=batch"),
        *("loss.gan_mode=vanilla", "loss.feature_matching=0", "loss.l1=100", "train.retain_graph=false", CUT_OUT),
    ],
    "local enhancer": [
        *("generator.name=local", "generator.upsample=residual", "discriminator.n_scales=3", "loss.gan_mode=wgan"),
        *("loss.gradient_penalty=10", "train.activation_checkpointing=true"),
    ],
    "SPADE": [
        *(*SPADE, "generator.norm=batch", "style.channels=4", "style.size=[4,4]", "discriminator.spectral_norm=inner"),
        *("loss.gan_mode=hinge", "loss.r1=1", CUT_OUT, "loss.class_weights={1: 0.5}"),
    ],
    "OASIS": [
        *(*SPADE, "generator.noise_channels=4", "discriminator.name=segmentation", "discriminator.n_downsamplings=3"),
        *("loss.gan_mode=segmentation", "loss.feature_matching=0", "loss.labelmix=10", MOVED),
    ],
    "Projected GAN": ["discriminator.name=projected", "loss.l1=10", MOVED],
    "CUT": [*(*CUT, "generator.upsample=antialiased", "generator.downsample=antialiased", CUT_OUT)],
    "FastCUT, scaled gradients": [
        *(*CUT, *OUTSIDE_MASK, "contrastive.flip_equivariance=true", "generator.norm=batch"),
        *("amp.opt_level=O1", "amp.dtype=float16"),
    ],
    "CycleGAN": ["method.name=cycle", *UNPAIRED, *OUTSIDE_MASK, "cycle.identity=0.5", "train.pool_size=1", CUT_OUT],
}

# the host waits for these operators, because their result, or its size, depends on values
ASKING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"}
ASKING |= {"bincount", "multinomial", "_linalg_check_errors"}
INDEXING = {"index", "index_put", "index_put_", "_unsafe_index"}
ON_THE_CPU = {  # functions that read only values of the CPU
    "draw_coin": "whether CUT mirrors images, from torch's generator of the CPU",
    "draw_place": "which image a pool shows, from the same generator",
    "update_parameters": "whether an average is updated for the first time: by its count of updates",
}


class Watch(TorchDispatchMode):
    """Raises AssertionError if the host would wait for a device."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        froms = {value.device.type for value in args if isinstance(value, Tensor)}
        if self.device.type in froms and (problem := self._problem(name, args)):
            assert called_by(ON_THE_CPU), problem
        to = kwargs.get("device", self.device).type
        if name == "_to_copy" and froms != {to}:
            assert to == self.device.type, "a copy to the host"
            raise AssertionError("a copy to the device, which no CUDA graph can repeat")
        return func(*args, **kwargs)

    def _problem(self, name: str, args: Any) -> str | None:
        """Why the host waits for an operator with arguments on the device, or None."""
        indices = [i for i in args[1] if i is not None] if name in INDEXING else []
        if any(i.dtype == torch.bool for i in indices):
            return "a mask as an index: the host asks for its size"
        if any(i.device.type != self.device.type for i in indices):
            return "indices are copied to the device"
        if name == "lift_fresh":
            return "numbers of the host are copied to the device, for which the host waits"
        return f"{name} asks the device" if name in ASKING else None


def called_by(functions: Any) -> bool:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name not in functions:
        frame = frame.f_back
    return frame.f_back is not None


@contextmanager
def torch_watches() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that it does not detect all waits
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def config_of(case: str, *settings: str) -> Config:
    return config_from_dict(TINY, case, [*CASES[case], *settings])


def batch_of(config: Config, device: torch.device) -> Batch:
    ids = torch.randint(5, (2, 1, 32, 32), dtype=torch.uint8, device=device)
    photo, other = torch.randint(256, (2, 2, 3, 32, 32), dtype=torch.uint8, device=device)
    if config.data.n_classes:
        return Batch(("a", "b"), source=ids, instances=ids.int(), target=photo, weights=ids)
    return Batch(("a", "b"), source=photo, target=other, labels=ids if config.loss.outside_mask else None)


def watched_steps(config: Config, device: torch.device, *, has_more: bool = True) -> None:
    """Make a step with one pass, then a step with several. Averages begin at the second update."""
    method = METHODS[config.method.name](config, World(0, 1, device))
    averages = make_averages(method, config.train.ema_decay)
    batch = batch_of(config, device)
    more = [] if config.method.name == "cycle" else [[batch]]
    with torch_watches() if device.type == "cuda" else Watch(device):
        for groups in ([[batch]], [*more, [batch, batch]])[: 1 + has_more]:
            method.step(groups)
            for name, average in averages.items():
                average.update_parameters(method.networks[name].module)
                average.update_parameters(method.networks[name].module)


@pytest.fixture
def meta_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fused Adam accept meta parameters, and disable autocast."""
    monkeypatch.setattr(import_module("torch.optim.adam"), "_device_dtype_check_for_fused", lambda _: None)
    for place in ("torch.autocast", "utils.device.autocast"):
        monkeypatch.setattr(place, lambda *_, **__: nullcontext())


@pytest.mark.usefixtures("meta_steps")
@pytest.mark.parametrize("case", CASES)
def test_a_step_has_all_tensors_on_the_device_and_waits_for_nothing(case: str) -> None:
    watched_steps(config_of(case), META, has_more=case in ("pix2pixHD", "pix2pix", "CycleGAN"))


@pytest.mark.usefixtures("meta_steps")
@pytest.mark.parametrize("case", ["pix2pixHD", "OASIS"])
def test_translations_are_computed_on_the_device(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype))
    config = config_of(case)
    method = METHODS[config.method.name](config, World(0, 1, META))
    batch = replace(batch_of(config, CPU), names=("a",)).mapped(lambda maps: maps[:1])
    for direction in method.translators:
        made = method.predictor({}, direction).translate(batch)
        assert (made.device, made.shape) == (CPU, (1, 3, 32, 32))


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
@pytest.mark.parametrize(
    ("case", "level", "more"),
    [
        ("pix2pixHD", "O2", "amp.dtype=bfloat16"),
        ("Projected GAN", "O2", "amp.dtype=bfloat16"),
        ("pix2pix", "O3", "train.ema_decay=0"),
    ],
)
def test_no_opt_level_makes_a_step_wait(device: str, case: str, level: str, more: str) -> None:
    watched_steps(config_of(case, f"amp.opt_level={level}", more), torch.device(device))


def test_every_part_of_a_step_has_a_case() -> None:
    configs = [config_of(case) for case in CASES]
    assert {config.method.name for config in configs} == METHODS.keys()
    assert {config.generator.name for config in configs} == GENERATORS.keys()
    assert {config.discriminator.name for config in configs} == DISCRIMINATORS.keys()
    assert {operation for config in configs for operation in config.augmentation.policy} == DRAWS.keys()
    modes = get_args(LossConfig.__annotations__["gan_mode"])
    assert {config.loss.gan_mode for config in configs} == set(modes)
    weights = {
        name for config in configs for name, value in vars(config.loss).items() if isinstance(value, float) and value
    }
    assert weights == {name for name, value in vars(LossConfig()).items() if isinstance(value, float)}
