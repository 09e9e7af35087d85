"""A training step against pix2pixHD's update: time, arithmetic, share of the machine's convolution rate, peak memory.

python -m bench.train_step [--repeats N] [--case NAME …]
"""

import argparse
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

import build
from adversarial_step import Game, build_game
from bench.cases import DEMO, Case
from bench.measure import convolution_rate, count_flop, median, time_alternating
from bench.reference_update import ReferenceUpdate
from bench.report import write_report
from configs.schema import Config
from data.conditioning import images_to_float
from utils.distributed import World, choose_device
from utils.precision import OptLevel, choose_precision

CPU_CASES = [
    Case("full size 256x256", 256, 256),
    Case("full size 512x256", 256, 512),
    Case("demo 128x128", 128, 128, settings=tuple(DEMO)),
]
GPU_CASES = [Case(f"full size 1024x512, batch {n}", 512, 1024, batch_size=n) for n in (1, 4, 8)]
SIDES: dict[str, list[str] | None] = {
    "reference": None,
    "float32": ["amp.opt_level=O0"],
    "default": [],
    "default, checkpointing": ["train.activation_checkpointing=true"],
}


def make_reference(config: Config, device: torch.device) -> ReferenceUpdate:
    """pix2pixHD's update on the networks of a configuration."""
    torch.manual_seed(config.run.seed)
    perceptual = build.build_perceptual_loss(config)
    return ReferenceUpdate(
        generator=build.build_generator(config).to(device),
        discriminator=build.build_discriminator(config).to(device),
        vgg=None if perceptual is None else perceptual.network.to(device),
        l1=config.loss.l1,
    )


def make_side(case: Case, side: str, device: torch.device) -> Callable[[], object]:
    """One step of a side, from the maps of a batch on the device to the updated weights."""
    settings = SIDES[side]
    batch = case.batch(device)
    if settings is not None:
        game: Game = build_game(case.config(*settings), World(0, 1, device))
        return lambda: game.step_with_kept_graph([batch])
    config = case.config()
    reference, conditioning = make_reference(config, device), build.build_conditioning(config)
    assert batch.target is not None
    target = batch.target
    return lambda: reference.step(conditioning(batch), images_to_float(target))


def peak_memory(case: Case, side: str, device: torch.device) -> float:
    """GiB that two steps take in a process of their own, beyond what importing the program takes."""
    command = [sys.executable, "-m", "bench.train_step", "--peak-memory", case.name, side, str(device)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak_memory(case: Case, side: str, device: torch.device) -> None:
    """The child's part of `peak_memory`."""
    case.config()  # VGG's weights are there
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    step = make_side(case, side, device)
    step()
    step()
    if device.type == "cuda":
        taken = torch.cuda.max_memory_allocated(device)
    else:
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(taken / 2**30)


def measure(case: Case, device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """A row for each side."""
    sides = {side: make_side(case, side, device) for side in SIDES}
    flop = count_flop(sides["float32"])
    times = time_alternating(sides, device, repeats=repeats)
    del sides
    rows = []
    for side, seconds in times.items():
        settings = SIDES[side]
        level: OptLevel = "O0" if settings is None or "amp.opt_level=O0" in settings else "O1"
        dtype = choose_precision(level, "auto", device).compute_dtype
        rate = convolution_rate(device, dtype)
        ratios = [ours / theirs for theirs, ours in zip(seconds, times["reference"], strict=True)]
        rows.append(
            {
                "case": case.name,
                "side": side,
                "dtype": str(dtype).removeprefix("torch."),
                "s": median(seconds),
                "images/s": case.batch_size / median(seconds),
                "times the reference": median(ratios),
                "TFLOP": flop / 1e12,
                "convolution TFLOP/s": rate / 1e12,
                "share of it": flop / median(seconds) / rate,
                "peak GiB": peak_memory(case, side, device),
            }
        )
    return rows


def main() -> None:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case", nargs="*", help="names of cases; default: all of the device")
    parser.add_argument("--peak-memory", nargs=3, metavar=("CASE", "SIDE", "DEVICE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cases = {case.name: case for case in [*CPU_CASES, *GPU_CASES]}
    if arguments.peak_memory:
        name, side, device_name = arguments.peak_memory
        print_peak_memory(cases[name], side, torch.device(device_name))
        return
    device = choose_device(arguments.device)
    chosen = arguments.case or [case.name for case in (GPU_CASES if device.type == "cuda" else CPU_CASES)]
    rows = [row for name in chosen for row in measure(cases[name], device, arguments.repeats)]
    write_report("train_step", device, rows)


if __name__ == "__main__":
    main()
