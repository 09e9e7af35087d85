"""Trainings in processes of their own that start at once: forked from a server that has everything imported."""

import os
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch

import train
from training import launch  # noqa: F401 - what train.py imports when it starts
from utils.cli import run_entry_point

_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.reliability.child"])


def start(config: Path, *arguments: str, prepare: Callable[[], object] | None = None) -> ForkServerProcess:
    """`train.py --config CONFIG ARGUMENTS` in a process of its own, whose output goes to CONFIG.out.

    prepare: called in that process first.
    """
    command = ["train.py", "--config", str(config), *arguments]
    process = _context.Process(target=_work, args=(command, config.with_suffix(".out"), prepare))
    process.start()
    return process


def _work(command: list[str], output: Path, prepare: Callable[[], object] | None) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    torch.set_num_threads(1)
    sys.argv = command
    if prepare:
        prepare()
    sys.exit(run_entry_point(train.main))
