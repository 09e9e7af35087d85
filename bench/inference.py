"""Compare the speed of translation with a plain float32 loop, for the network only and from PNG to PNG files.

python -m bench.inference [--repeats N] [--case NAME …]
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import nn

from bench.cases import N_CLASSES, SPADE, TINY, Case
from bench.measure import Rows, Work, compare, measure_cases
from configs import build
from configs.load import config_to_dict
from data.batch import Batch
from data.conditioning import images_to_uint8
from inference.inputs import build_input
from inference.load import load_generator
from inference.output_folder import OutputFolder, image_store
from inference.request import Request
from inference.requested_predictor import build_predictor
from inference.translate import translate_all
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.device import OptLevel, allow_tf32, choose_precision, compiled
from utils.distributed import World
from utils.machine import give_freed_memory_back, keep_freed_memory

REFERENCE, COMPILED = "reference", "O2, compiled"
LEVELS: dict[str, OptLevel] = {REFERENCE: "O0", "O0": "O0", "O1": "O1", "O2": "O2", "O3": "O3", COMPILED: "O2"}
N_FILES = 4
FROM_FILES = "PNG to PNG"


def cases_of(height: int, width: int) -> list[Case]:
    """Return cases for an image size: a network at two batch sizes, translation of files, and SPADE's network."""
    networks = [Case(f"network, {width}x{height}, batch {n}", height, width, n) for n in (1, 8)]
    files = Case(f"{FROM_FILES}, {width}x{height}, {N_FILES} files", height, width, N_FILES)
    return [*networks, files, Case(f"SPADE, {width}x{height}, batch 1", height, width, settings=tuple(SPADE))]


CPU_CASES, GPU_CASES = cases_of(256, 256), cases_of(512, 1024)


def sides_of(case: Case) -> list[str]:
    """Return the programs ("sides") that a case compares. Large batches leave some out, because compiling is slow."""
    if case.batch_size == 1:
        return list(LEVELS)
    return [REFERENCE, "O2", COMPILED] if case.name.startswith(FROM_FILES) else [REFERENCE, "O2"]


def make_generator(case: Case) -> nn.Module:
    """Return the generator of a case with initial weights, in evaluation mode."""
    torch.manual_seed(0)
    return build.build_generator(case.config()).eval()


def network_work(case: Case, side: str, device: torch.device) -> Work:
    """Return a function that makes a forward pass, in plain float32 or at an opt level."""
    source = build.data_facts(case.config()).conditioning(case.batch(device))
    network = make_generator(case).to(device)

    def plain() -> None:
        with torch.no_grad():
            network(source)

    if side == REFERENCE:
        return plain
    precision = choose_precision(LEVELS[side], "auto", device)
    allow_tf32(LEVELS[side] != "O0")
    computing = precision.cast(network).to(memory_format=build.memory_format(device))
    give_freed_memory_back()  # free the memory of the float32 weights
    computing = compiled(computing, device, is_final=True) if side == COMPILED else computing

    def work() -> None:
        with torch.inference_mode(), precision.autocast():
            computing(source)

    return work


def write_files(case: Case, network: nn.Module, folder: Path) -> None:
    """Write N_FILES label and instance maps, and the generator's checkpoint."""
    rng = np.random.default_rng(0)
    for number in range(N_FILES):
        ids = rng.integers(0, N_CLASSES, (case.height // 16, case.width // 16), np.uint8).repeat(16, 0).repeat(16, 1)
        for kind in ("labels", "instances"):
            (folder / kind).mkdir(exist_ok=True)
            Image.fromarray(ids).save(folder / kind / f"{number}.png")
    state = {"config": config_to_dict(case.config()), "step": 1, "averages": {}}
    save_checkpoint(checkpoint_path(folder, 1), state | {"networks": {"generator": network.state_dict()}})


def plain_loop(case: Case, device: torch.device, folder: Path) -> Work:
    """Return a function that translates the files one by one in float32."""
    network, conditioning = make_generator(case).to(device), build.data_facts(case.config()).conditioning

    def work() -> None:
        for number in range(N_FILES):
            maps = [
                torch.from_numpy(np.array(Image.open(folder / kind / f"{number}.png", formats=["PNG"])))[None, None]
                for kind in ("labels", "instances")
            ]
            source = conditioning(Batch((str(number),), source=maps[0], instances=maps[1].int()).to(device))
            with torch.no_grad():
                fake = images_to_uint8(network(source))[0].cpu()
            Image.fromarray(fake.permute(1, 2, 0).numpy()).save(folder / f"reference_{number}.png")

    return work


def program(side: str, device: torch.device, folder: Path) -> Work:
    """Load the generator, and return a function that translates the files as in test.py."""
    loaded = load_generator(checkpoint_path(folder, 1))
    compiles: Literal["on", "off"] = "on" if side == COMPILED else "off"
    labels, instances = [folder / "labels"], folder / "instances"
    request = Request(input=labels, instances=instances, opt_level=LEVELS[side], compile=compiles)
    predictor, layout = build_predictor(loaded, device, request), build_input(loaded, request)
    output = OutputFolder(folder / side, layout, image_store(loaded.data_facts))
    return lambda: translate_all(loaded, predictor, output, request, World(0, 1, device))


def make_translation(case: Case, side: str, device: torch.device, *, folder: Path) -> Work:
    """Return the function to measure for a side. folder: Folder with the files and the checkpoint.

    Only the reference keeps the default memory allocator, as pix2pixHD does. The other sides are set up as in test.py.
    """
    torch.backends.cudnn.benchmark = True
    if device.type == "cpu" and side != REFERENCE:
        keep_freed_memory()
    if not case.name.startswith(FROM_FILES):
        return network_work(case, side, device)
    return plain_loop(case, device, folder) if side == REFERENCE else program(side, device, folder)


def rows_of(case: Case, device: torch.device, repeats: int, sides: Sequence[str] = ()) -> Rows:
    """Return the report rows of a case for the reference and `sides`. By default, use the sides from `sides_of`."""
    levels = {side: LEVELS[side] for side in dict.fromkeys([REFERENCE, *(sides or sides_of(case))])}
    with tempfile.TemporaryDirectory() as folder:
        if case.name.startswith(FROM_FILES):
            write_files(case, make_generator(case), Path(folder))
        return compare(case, levels, partial(make_translation, folder=Path(folder)), device, repeats)


if __name__ == "__main__":
    cases = {"cpu": CPU_CASES, "cuda": GPU_CASES, "other": [TINY]}
    measure_cases(__doc__, "inference", cases, rows_of, list(LEVELS))
