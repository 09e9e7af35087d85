"""A training step against pix2pixHD's update: time, arithmetic, share of the machine's convolution rate, peak memory.

python -m bench.train_step [--repeats N] [--case NAME …]
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

import torch

import build
from adversarial_step import Game, build_game
from bench.cases import DEMO, Case
from bench.measure import convolution_rate, count_flop, median, peak_memory_bytes, serve_steps, time_processes
from bench.reference_update import ReferenceUpdate
from bench.report import write_report
from configs.schema import Config
from data.conditioning import images_to_float
from utils.allocator import keep_freed_memory
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
    "default, compiled": ["train.compile=true"],
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


def serve(case: Case, side: str, device: torch.device) -> None:
    """In a process of the side's own: after its warm-up, a step for every line of input, answered by its seconds.

    The reference runs in the memory allocator's default, as pix2pixHD does; the others as train.py does. The end of
    the input is answered by the peak of the memory in GiB, beyond what the imported program takes.
    """
    if device.type == "cpu" and side != "reference" and "checkpointing" not in side:
        keep_freed_memory()
    before = peak_memory_bytes(device)
    step = make_side(case, side, device)
    for _ in range(2):
        step()
    serve_steps(step, device)
    print((peak_memory_bytes(device) - before) / 2**30, flush=True)


def measure(case: Case, device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """A row for each side."""
    case.config()  # VGG's weights are there: making them takes memory, which would count as a side's
    command = [sys.executable, "-m", "bench.train_step", "--serve", case.name]
    timed = time_processes({side: [*command, side, str(device)] for side in SIDES}, repeats)
    flop = count_flop(make_side(case, "float32", device))
    rows = []
    for side, result in timed.items():
        settings = SIDES[side]
        level: OptLevel = "O0" if settings is None or "amp.opt_level=O0" in settings else "O1"
        dtype = choose_precision(level, "auto", device).compute_dtype
        rate = convolution_rate(device, dtype)
        reference = timed["reference"]
        ratios = [theirs / ours for theirs, ours in zip(reference.seconds, result.seconds, strict=True)]
        rows.append(
            {
                "case": case.name,
                "side": side,
                "dtype": str(dtype).removeprefix("torch."),
                "s": median(result.seconds),
                "images/s": case.batch_size / median(result.seconds),
                "times as fast": median(ratios),
                "TFLOP": flop / 1e12,
                "convolution TFLOP/s": rate / 1e12,
                "share of it": flop / median(result.seconds) / rate,
                "peak GiB": result.answer,
                "memory ratio": result.answer / reference.answer,
            }
        )
    return rows


def main() -> None:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", nargs="*", help="names of cases; default: all of the device")
    parser.add_argument("--serve", nargs=3, metavar=("CASE", "SIDE", "DEVICE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cases = {case.name: case for case in [*CPU_CASES, *GPU_CASES]}
    if arguments.serve:
        name, side, device_name = arguments.serve
        serve(cases[name], side, torch.device(device_name))
        return
    device = choose_device(arguments.device)
    chosen = arguments.case or [case.name for case in (GPU_CASES if device.type == "cuda" else CPU_CASES)]
    rows = [row for name in chosen for row in measure(cases[name], device, arguments.repeats)]
    write_report("train_step", device, rows)


if __name__ == "__main__":
    main()
