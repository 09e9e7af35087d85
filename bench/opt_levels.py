"""The four opt levels on the demo: speed, memory, final loss and metrics.

python -m bench.opt_levels [--steps N]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.measure import median, write_report
from utils.device import choose_device


def train(level: str, dtype: str, steps: int, root: Path) -> dict[str, Any]:
    """Train the demo in a process of its own, translate its test split, and return a row."""
    settings = [f"run.root={root}", f"run.name={level}", f"amp.opt_level={level}", f"amp.dtype={dtype}"]
    settings += [f"train.max_steps={steps}", f"log.every_steps={max(1, steps // 10)}"]
    settings += ["checkpoint.every_steps=100000", "checkpoint.keep=1"]
    training = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path('train.py', run_name='train')"
    peak = "import torch; from bench.measure import peak_memory_bytes; from utils.device import choose_device"
    script = f"{training}['main'](sys.argv[1:]); {peak}; print(peak_memory_bytes(choose_device('auto')))"
    command = [sys.executable, "-c", script, "train.py", "--config", "configs/demo.yaml", *settings]
    peak_bytes = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    folder = root / level
    translate = [sys.executable, "test.py", "--checkpoint", str(folder), "--output", str(folder / "out")]
    subprocess.run([*translate, "--opt-level", level, "--dtype", dtype], check=True, capture_output=True)
    metrics = json.loads((folder / "out" / "metrics.json").read_text())["mean"]
    lines = [line for line in (folder / "log.txt").read_text().splitlines() if "images/s" in line]
    return {
        "level": level,
        "dtype": "float32" if level == "O0" else dtype,
        "images/s": median([float(line.split("images/s")[0].split()[-1]) for line in lines[1:]]),
        "peak GiB": peak_bytes / 2**30,
        "G/total at the end": float(lines[-1].split("G/total")[1].split()[0]),
        "test L1": metrics["l1"],
        "test SSIM": metrics["ssim"],
    }


def main() -> None:
    """Measure according to the command line, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        rows = [train(level, arguments.dtype, arguments.steps, Path(root)) for level in ("O0", "O1", "O2", "O3")]
    write_report("opt_levels", choose_device("auto"), rows)


if __name__ == "__main__":
    main()
