"""Translation at full size against a plain float32 loop: the network alone, and from PNG to PNG.

python -m bench.inference [--repeats N]
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

import build
from bench.cases import N_CLASSES, Case
from bench.measure import Work, convolution_rate, count_flop, median, time_alternating
from bench.report import write_report
from configs.load import config_to_dict
from data.batch import Batch
from data.conditioning import Conditioning, images_to_uint8
from inference import Request, build_input, build_translator, translate_all
from trained import load_trained
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.compilation import compiled
from utils.distributed import choose_device
from utils.precision import OptLevel, choose_precision

LEVELS: tuple[OptLevel, ...] = ("O0", "O1", "O2", "O3")
COMPILED = "O2, compiled"
N_FILES = 4


def make_generator(case: Case) -> nn.Module:
    """The generator of a case with initial weights, in evaluation mode."""
    torch.manual_seed(0)
    return build.build_generator(case.config()).eval()


def network_sides(case: Case, device: torch.device) -> dict[str, Callable[[], object]]:
    """A forward pass of a plain float32 network, and at each opt level."""
    source = build.build_conditioning(case.config())(case.batch(device))

    def side(network: nn.Module, level: OptLevel, *, compiles: bool = False) -> Callable[[], object]:
        precision = choose_precision(level, "auto", device)
        computing = precision.computing(network).to(memory_format=build.memory_format(case.config(), device))
        computing = compiled(computing, device, is_final=True) if compiles else computing

        def work() -> None:
            with torch.inference_mode(), precision.autocast():
                computing(source)

        return work

    plain = make_generator(case).to(device)

    def reference() -> None:
        with torch.no_grad():
            plain(source)

    sides: dict[str, Work] = {"reference": reference}
    sides |= {level: side(make_generator(case).to(device), level) for level in LEVELS}
    return sides | {COMPILED: side(make_generator(case).to(device), "O2", compiles=True)}


def file_sides(case: Case, device: torch.device, folder: Path) -> dict[str, Callable[[], object]]:
    """N_FILES label maps from PNG to PNG: a plain float32 loop, and test.py's way at each opt level, once loaded."""
    rng = np.random.default_rng(0)
    for number in range(N_FILES):
        ids = rng.integers(0, N_CLASSES, (case.height // 16, case.width // 16), np.uint8).repeat(16, 0).repeat(16, 1)
        for kind in ("labels", "instances"):
            (folder / kind).mkdir(exist_ok=True)
            Image.fromarray(ids).save(folder / kind / f"{number}.png")
    network = make_generator(case)
    state = {"config": config_to_dict(case.config()), "step": 1, "generator": {"network": network.state_dict()}}
    save_checkpoint(checkpoint_path(folder, 1), state)
    conditioning = Conditioning(n_classes=N_CLASSES, instance_edges=True)
    network.to(device)

    def reference() -> None:
        for number in range(N_FILES):
            maps = [
                torch.from_numpy(np.array(Image.open(folder / kind / f"{number}.png", formats=["PNG"])))[None, None]
                for kind in ("labels", "instances")
            ]
            source = conditioning(Batch((str(number),), maps[0], maps[1].int(), None).to(device))
            with torch.no_grad():
                fake = images_to_uint8(network(source))[0].cpu()
            Image.fromarray(fake.permute(1, 2, 0).numpy()).save(folder / f"reference_{number}.png")

    def side(level: OptLevel, *, compiles: bool = False) -> Callable[[], object]:
        request = Request(
            checkpoint=checkpoint_path(folder, 1),
            input=(folder / "labels",),
            instances=folder / "instances",
            targets=None,
            features=None,
            clusters=None,
            feature_maps=None,
            noise=False,
            seed=0,
            split=None,
            output=folder / level,
            weights="ema",
            opt_level=level,
            dtype="auto",
            compile="off",
            batch_size=1,
            device="cuda" if device.type == "cuda" else "cpu",
            overrides=(),
        )
        trained = load_trained(checkpoint_path(folder, 1))
        translator = build_translator(trained, None, device, request, compiles=compiles)
        layout = build_input(trained, None, request)
        return lambda: translate_all(trained, translator, layout, folder / level, batch_size=1)

    sides: dict[str, Work] = {"reference": reference, **{level: side(level) for level in LEVELS}}
    return sides | {COMPILED: side("O2", compiles=True)}


def rows_of(name: str, n_images: int, times: dict[str, list[float]], shares: dict[str, float]) -> list[dict[str, Any]]:
    """A row for each side."""
    return [
        {
            "case": name,
            "side": side,
            "s": median(seconds),
            "images/s": n_images / median(seconds),
            "times as fast": median([a / b for a, b in zip(times["reference"], seconds, strict=True)]),
            "share of the convolution rate": shares[side] / median(seconds) if side in shares else None,
        }
        for side, seconds in times.items()
    ]


def main() -> None:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    height, width = (512, 1024) if device.type == "cuda" else (256, 256)
    dtypes = {level: choose_precision(level, "auto", device).compute_dtype for level in LEVELS}
    rates = {str(level): convolution_rate(device, dtype) for level, dtype in dtypes.items()}
    rates[COMPILED] = rates["O2"]
    rows = []
    for batch_size in (1, 8):
        case = Case(f"network, {width}x{height}, batch {batch_size}", height, width, batch_size)
        sides = network_sides(case, device)
        flop = count_flop(sides["reference"])
        shares = {side: flop / rates.get(side, rates["O0"]) for side in sides}
        rows += rows_of(case.name, batch_size, time_alternating(sides, device, repeats=arguments.repeats), shares)
    case = Case(f"PNG to PNG, {width}x{height}, {N_FILES} files", height, width)
    with tempfile.TemporaryDirectory() as folder:
        times = time_alternating(file_sides(case, device, Path(folder)), device, repeats=max(2, arguments.repeats // 2))
    rows += rows_of(case.name, N_FILES, times, {})
    write_report("inference", device, rows)


if __name__ == "__main__":
    main()
