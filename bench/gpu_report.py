"""One JSON of a GPU: its tests, training steps and translation, with device, driver and versions.

python -m bench.gpu_report [--output FILE]

Measures what an earlier report of the same machine, versions and commit lacks, so that an interrupted one is completed.
--device cpu tries all parts at a tiny size.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch

from bench import inference, train_step
from bench.cases import TINY
from bench.measure import RESULTS, Rows, markdown_table, surroundings
from utils.cli import run_entry_point
from utils.device import choose_device
from utils.files import replacing

PARTS = ("tests", "train_step", "inference")


def run_tests(*paths: str) -> Rows:
    """Run the tests marked gpu, of all files without paths; return a row with their numbers and those that failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "--quiet", "--junitxml", str(file), *paths]
        subprocess.run(command, check=False)
        (suite,) = ElementTree.parse(file).getroot()
    broken = [test for test in suite.iter("testcase") if {"failure", "error"} & {child.tag for child in test}]
    numbers = {key: int(suite.attrib[key]) for key in ("tests", "skipped")}
    return [
        {"case": "marked gpu", **numbers, "failed": [f"{test.get('classname')}.{test.get('name')}" for test in broken]}
    ]


def measurements(done: Mapping[str, Rows], device: torch.device) -> Iterator[tuple[str, Rows]]:
    """Yield the part and the rows of each case that is not done."""
    is_gpu = device.type == "cuda"
    if all(row["failed"] for row in done["tests"]):
        yield "tests", run_tests() if is_gpu else run_tests("tests/models/test_layers.py")
    for part, module in (("train_step", train_step), ("inference", inference)):
        names = {row["case"] for row in done[part]}
        for case in module.GPU_CASES if is_gpu else [TINY]:
            if case.name not in names:
                yield part, module.rows_of(case, device, 3) if is_gpu else module.rows_of(case, device, 1, ["O2"])


def main(arguments: Sequence[str]) -> None:
    """Measure what the report lacks, and write it after each case, since a later one may fail.

    Raises:
        DeviceError: there is no usable GPU.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cuda")
    parser.add_argument("--output", type=Path, help="default: gpu_report_DEVICE.json in bench/results")
    options = parser.parse_args(arguments)
    device = choose_device(options.device, option="--device ")
    path = options.output or RESULTS / f"gpu_report_{device.type}.json"
    report: dict[str, Any] = {"surroundings": surroundings(device), **{part: [] for part in PARTS}}
    earlier = json.loads(path.read_text()) if path.is_file() else {}
    if earlier.get("surroundings") == report["surroundings"]:
        report = earlier
    path.parent.mkdir(parents=True, exist_ok=True)
    for part, rows in measurements(report, device):
        report[part] = rows if part == "tests" else report[part] + rows
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(report, indent=2) + "\n")
        print(markdown_table(rows) if rows else f"{part}: nothing fitted the GPU", flush=True)
    print(path)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
