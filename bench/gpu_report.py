"""Run all GPU measurements within nine minutes, and write the results to bench/results/gpu_report.json.

python -m bench.gpu_report [--output FILE]

Each part runs in its own process. The most important part is first. The file is written after each part. If a part
fails or exceeds its time, the file contains the part's last lines of output, and the next part begins.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from bench.measure import RESULTS, surroundings

LIMIT_S = 540.0
_LAST_LINES = 12
_CLOCKS = "clocks.sm,clocks.mem,clocks.max.sm,power.draw,temperature.gpu"


@dataclass(frozen=True)
class Part:
    """A measurement by a Python process. In `arguments`, RESULTS is replaced by the folder for JSON files."""

    name: str
    arguments: Sequence[str]
    limit_s: float


def _training(name: str, cases: Sequence[str], sides: Sequence[str], limit_s: float) -> Part:
    arguments = ["-m", "bench.train_step", "--device", "cuda", "--results", "RESULTS", "--repeats", "5"]
    return Part(name, [*arguments, "--case", *cases, "--side", *sides], limit_s)


_FULL = "full size 1024x512, batch {}"
_COMPILED = ("default", "default, compiled")
PARTS = [
    _training("full size", [_FULL.format(1)], ["reference, autocast", *_COMPILED], 100),
    _training("without pairs", ["CUT 256x256", "CycleGAN 256x256"], _COMPILED, 100),
    Part("tests", ["-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider"], 110),
    _training("larger batches", [_FULL.format(4), _FULL.format(8)], _COMPILED, 80),
    _training("SPADE and small networks", ["SPADE 512x256, batch 1", "small 128x128"], _COMPILED, 60),
    Part("translation", ["-m", "bench.inference", "--device", "cuda", "--results", "RESULTS"], 60),
    _training(
        "opt levels", [_FULL.format(1)], ["O2", "O3", "default, without a CUDA graph", "default, padded channels"], 60
    ),
]


def run_part(part: Part, limit_s: float) -> dict[str, Any]:
    """Run a part. Return its record: name, seconds, rows, last lines, and the problem or None."""
    begin, problem = time.monotonic(), None
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *(folder if word == "RESULTS" else word for word in part.arguments)]
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
            process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(limit_s)
                problem = f"exit code {code}" if code else None
            except subprocess.TimeoutExpired:
                if sys.platform != "win32":
                    os.killpg(process.pid, signal.SIGKILL)  # kill the process and its children
                process.kill()
                process.wait()
                problem = f"ended after {limit_s:g} s"
            printed.seek(0)
            lines = printed.read().splitlines()[-_LAST_LINES:]
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))]
    return {
        "part": part.name,
        "seconds": round(time.monotonic() - begin, 1),
        "problem": problem,
        "rows": [row for report in reports for row in report["rows"]],
        "last lines": lines,
    }


def write_report(path: Path, parts: Sequence[Part], device: torch.device, limit_s: float = LIMIT_S) -> bool:
    """Run the parts within `limit_s` seconds, and write the report after each. Return True if no part had a problem."""
    end, records = time.monotonic() + limit_s, list[dict[str, Any]]()
    about = {"date": datetime.now(UTC).date().isoformat(), "surroundings": surroundings(device), "clocks": _clocks()}
    for part in parts:
        left = end - time.monotonic()
        if left > 1:
            records.append(run_part(part, min(part.limit_s, left)))
        else:
            records.append({"part": part.name, "problem": "no time was left", "rows": []})
        print(f"{part.name}: {records[-1]['problem'] or 'done'}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**about, "parts": records}, indent=2) + "\n", encoding="utf-8")
    return not any(record["problem"] for record in records)


def _clocks() -> str:
    """Return clocks, power and temperature of the GPU, or the reason why they are unknown."""
    try:
        command = ["nvidia-smi", f"--query-gpu={_CLOCKS}", "--format=csv"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"nvidia-smi: {error}"


def main() -> int:
    """Measure, and return the exit code: 1 if a part had a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS / "gpu_report.json", metavar="FILE")
    output = parser.parse_args().output
    if not torch.cuda.is_available():
        print("bench.gpu_report: torch finds no GPU. Use a machine with a GPU.", file=sys.stderr)
        return 2
    return 0 if write_report(output, PARTS, torch.device("cuda")) else 1


if __name__ == "__main__":
    sys.exit(main())
