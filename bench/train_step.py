"""Compare the time and peak memory of a training step with the original programs.

python -m bench.train_step [--repeats N] [--case NAME …]
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from bench.cases import CUT, CYCLE, SMALL, SPADE, TINY, Case
from bench.count import count_step, least_seconds
from bench.measure import Rows, compare, measure_cases
from bench.padded_channels import use_padded_channels
from bench.references import OF_UNPAIRED, Reference, ReferenceSpadeUpdate, ReferenceUpdate, as_in_the_originals
from configs import build
from configs.schema import Config
from data.conditioning import images_to_float
from losses.perceptual import VGG19Loss
from training.cuda_graph import make_step as training_step
from training.methods import METHODS
from utils.device import allow_tf32, choose_precision
from utils.distributed import World

PADDED = "default, padded channels"
UNPAIRED = {"CUT": CUT, "CycleGAN": CYCLE}
CPU_CASES = [
    Case("full size 256x256", 256, 256),
    Case("full size 512x256", 256, 512),
    Case("small 128x128", 128, 128, settings=tuple(SMALL)),
    Case("SPADE 256x128", 128, 256, settings=tuple(SPADE)),
    *(
        Case(f"{name} {n}x{n}", n, n, settings=tuple(settings))
        for name, settings in UNPAIRED.items()
        for n in (128, 256)
    ),
]
GPU_CASES = [
    *(Case(f"full size 1024x512, batch {n}", 512, 1024, batch_size=n) for n in (1, 4, 8)),
    Case("small 128x128", 128, 128, settings=tuple(SMALL)),
    *(Case(f"SPADE 512x256, batch {n}", 256, 512, batch_size=n, settings=tuple(SPADE)) for n in (1, 4)),
    *(Case(f"{name} 256x256", 256, 256, settings=tuple(settings)) for name, settings in UNPAIRED.items()),
]
LOCAL = ("generator.name=local", "generator.base_channels=32", "discriminator.n_scales=3")
OTHER_CASES = [Case("local enhancer, 2048x1024, batch 1", 1024, 2048, settings=LOCAL), TINY]
CASES = {"cpu": CPU_CASES, "cuda": GPU_CASES, "other": OTHER_CASES}
REFERENCES = {  # "reference" uses torch's default on a GPU, which is TF32 for convolutions
    "reference": ["amp.opt_level=O0"],
    "reference in float32": ["amp.opt_level=O0"],
    "reference, autocast": ["amp.opt_level=O1"],
}
OURS: dict[str, list[str]] = {
    **{level: [f"amp.opt_level={level}"] for level in ("O0", "O2", "O3")},
    **{f"{level}, compiled": [f"amp.opt_level={level}", "train.compile=true"] for level in ("O0", "O2", "O3")},
    "default": [],
    "default, compiled": ["train.compile=true"],
    "default, checkpointing": ["train.activation_checkpointing=true"],
    "default, without a CUDA graph": ["train.cuda_graph=false"],
    PADDED: [],
}
SETTINGS = REFERENCES | OURS
CPU_SIDES = ["O0", "default", "default, checkpointing"]  # compiling takes a minute on a CPU
GPU_SIDES = [*list(REFERENCES)[1:], *OURS]  # the padded side is last, because it changes torch


def make_reference(config: Config, device: torch.device) -> Reference:
    """Return an original program's training step for our networks. A step on pairs uses `config.amp.opt_level`."""
    torch.manual_seed(config.run.seed)
    if config.method.name != "paired":
        trained = METHODS[config.method.name](config, World(0, 1, device)).networks.values()
        networks: list[Any] = [as_in_the_originals(network.module) for network in trained]
        return OF_UNPAIRED[config.method.name](*networks)
    vgg = VGG19Loss(activation_checkpointing=False).to(device) if config.loss.perceptual else None
    dtype = choose_precision(config.amp.opt_level, config.amp.dtype, device).compute_dtype
    generator = build.build_generator(config).to(device)
    discriminator = build.build_discriminator(config).to(device)
    autocast_dtype = None if dtype == torch.float32 else dtype
    if config.generator.name == "spade":
        return ReferenceSpadeUpdate(generator, discriminator, vgg, autocast_dtype)
    return ReferenceUpdate(generator, discriminator, vgg, autocast_dtype, l1=config.loss.l1)


def make_step(case: Case, side: str, device: torch.device) -> Callable[[], object]:
    """Return a function that runs a training step of the program `side`, with a batch that is on the device.

    Only the reference keeps the default memory allocator, as pix2pixHD does. Other sides are set up as in train.py.
    """
    torch.backends.cudnn.benchmark = True  # train.py and pix2pix also set this
    allow_tf32(side != "reference in float32")
    config = case.config(*SETTINGS[side])
    if side == PADDED:
        use_padded_channels()
    batch = case.batch(device)
    if side not in REFERENCES:
        build.prepare_device(config, device)
        step = training_step(METHODS[config.method.name](config, World(0, 1, device)))
        return lambda: step([[batch]])
    reference, conditioning = make_reference(config, device), build.data_facts(config).conditioning
    assert batch.target is not None
    target = batch.target
    return lambda: reference.step(conditioning(batch), images_to_float(target))


def rows_of(case: Case, device: torch.device, repeats: int, sides: Sequence[str] = ()) -> Rows:
    """Return the report rows of a case for the reference and `sides`. The default sides depend on the device."""
    sides = sides or (GPU_SIDES if device.type == "cuda" else CPU_SIDES)
    levels = {side: case.config(*SETTINGS[side]).amp.opt_level for side in ("reference", *sides)}
    rows = compare(case, levels, make_step, device, repeats)
    if device.type == "cuda":
        calls = count_step(case.config("amp.opt_level=O0"), case.batch(torch.device("meta")))
        least = least_seconds(calls, torch.cuda.get_device_name(device))
        rows = [row | {"share of the limit": least and least / row["s"]} for row in rows]
    return rows


if __name__ == "__main__":
    measure_cases(__doc__, "train_step", CASES, rows_of, GPU_SIDES)
