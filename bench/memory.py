"""Peak memory of a training step at full size, by resolution and batch size.

python -m bench.memory [--case NAME …]
"""

import argparse
import sys

from bench.cases import Case
from bench.processes import time_processes
from bench.report import write_report
from bench.train_step import serve_step
from utils.device import choose_device

LOCAL = ("generator.name=local", "generator.base_channels=32", "discriminator.n_scales=3")
CASES = [
    *(Case(f"global, 1024x512, batch {n}", 512, 1024, batch_size=n) for n in (1, 2, 4)),
    Case("local enhancer, 2048x1024, batch 1", 1024, 2048, settings=LOCAL),
]
SIDES = ("default", "default, checkpointing")


def main() -> None:
    """Measure according to the command line, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--case", nargs="*", choices=[case.name for case in CASES], metavar="NAME", help="default: all")
    parser.add_argument("--serve", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    cases = {case.name: case for case in CASES}
    if arguments.serve:
        name, side = arguments.serve
        serve_step(cases[name], side, device)
        return
    rows = []
    for name in arguments.case or cases:
        cases[name].config()  # makes the file of VGG's weights
        command = [sys.executable, "-m", "bench.memory", "--device", device.type, "--serve", name]
        row: dict[str, object] = {"case": name}
        for side in SIDES:  # one after the other: both at once need the memory of both
            try:
                row[f"{side}: GiB"] = time_processes({side: [*command, side]}, repeats=1)[side].answer
            except RuntimeError as error:  # does not fit the device
                print(f"{name}, {side}: {error}", flush=True)
                row[f"{side}: GiB"] = None
        rows.append(row)
    write_report("memory", device, rows)


if __name__ == "__main__":
    main()
