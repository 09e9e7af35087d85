"""Processes of their own that start at once: forked from a server that has torch and the application imported."""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import dynamic_rendezvous
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tests.runs import PATIENCE_S, program_main, wait_until
from training import launch  # noqa: F401 - what train.py imports when it starts
from utils.cli import run_entry_point

PR_SET_PDEATHSIG = 1  # linux/prctl.h

_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.processes"])


def start(config: Path, *arguments: str, prepare: Callable[[], object] | None = None) -> ForkServerProcess:
    """Start `train.py --config CONFIG ARGUMENTS`, whose output goes to CONFIG.out.

    prepare: called in that process first.
    """
    return start_program(["train.py", "--config", str(config), *arguments], config.with_suffix(".out"), prepare)


def start_program(command: list[str], output: Path, prepare: Callable[[], object] | None = None) -> ForkServerProcess:
    """Start `python COMMAND`: `train.py …`, `test.py …` or `-m MODULE …`."""
    process = _context.Process(target=_work, args=(command, output, dict(os.environ), prepare))
    process.start()
    return process


class Torchrun:
    """torchrun's agent and two ranks of it, each forked with torch imported, in a session of their own.

    It does what `torchrun --standalone --nproc-per-node 2 COMMAND` does, with torch's own agent. Importing torch three
    times takes ten times as long as such a run.
    """

    def __init__(
        self, command: list[str], output: Path, prepare: Callable[[], object] | None = None, **options: Any
    ) -> None:
        self._output, self._begin = output, output.stat().st_size if output.exists() else 0
        arguments = (command, output, dict(os.environ), prepare, options)
        self._process = _context.Process(target=_agent, args=arguments)
        self._process.start()

    def send_signal(self, number: int) -> None:
        """Send a signal only to the agent."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def poll(self) -> int | None:
        """Return the agent's exit code, None while it runs."""
        return self._process.exitcode

    def wait(self) -> int:
        """Wait for the agent and return its exit code."""
        self._process.join(PATIENCE_S)
        assert self._process.exitcode is not None, self.said()
        return self._process.exitcode

    def wait_for_all(self) -> int:
        """Wait until neither the agent nor a process of it lives; return the agent's exit code."""
        code = self.wait()
        wait_until(lambda: not self.members(), self.said)
        return code

    def wait_for(self, words: str) -> None:
        """Wait until one of the processes has printed `words`."""
        wait_until(lambda: words in self.said() or self.poll() is not None, self.said)
        assert words in self.said(), self.said()

    def members(self) -> list[int]:
        """Return the living processes of the agent's session: itself, the ranks, their loader processes."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has just ended
                state, _parent, _group, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == self._process.pid and state != "Z":
                    found.append(int(stat.parent.name))
        return found

    def said(self) -> str:
        """Return what all of them have printed."""
        return self._output.read_bytes()[self._begin :].decode(errors="replace") if self._output.exists() else ""

    def end(self) -> list[int]:
        """Kill what still lives and return it."""
        orphans = self.members()
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.join()
        self._process.close()
        return orphans


@contextmanager
def torchrun(
    config: Path, *arguments: str, prepare: Callable[[], object] | None = None, **options: Any
) -> Iterator[Torchrun]:
    """Run `train.py --config CONFIG ARGUMENTS` in two processes; none may be left at the end.

    prepare: called in each of them first. options: of torchrun, as torch's LaunchConfig names them.
    """
    command = ["train.py", "--config", str(config), *arguments]
    run = Torchrun(command, config.with_suffix(".out"), prepare, **options)
    try:
        yield run
    finally:
        orphans = run.end()
    assert not orphans, run.said()


def run_two(output: Path, *commands: Sequence[str]) -> str:
    """Run `train.py …` or `test.py …`, one after the other in the same two processes; return what was printed."""
    *before, last = (list(command) for command in commands)
    run = Torchrun(last, output, partial(_run_programs, before))
    try:
        assert run.wait_for_all() == 0, run.said()
        return run.said()
    finally:
        run.end()


def train_two(config: Path, *runs: Sequence[str]) -> str:
    """Run `train.py --config CONFIG SETTINGS` for each of some lists of settings; see `run_two`."""
    commands = [["train.py", "--config", str(config), *settings] for settings in runs]
    return run_two(config.with_suffix(".out"), *commands)


def _work(command: list[str], output: Path, environment: dict[str, str], prepare: Callable[[], object] | None) -> None:
    _begin(output, environment)
    _run_program(command, prepare)


def _agent(
    command: list[str],
    output: Path,
    environment: dict[str, str],
    prepare: Callable[[], object] | None,
    options: dict[str, Any],
) -> None:
    os.setsid()
    _begin(output, environment)
    one_machine: dict[str, Any] = {"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 2, "max_restarts": 0}
    one_machine |= {"run_id": uuid4().hex, "rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0"}
    one_machine |= {"local_addr": "127.0.0.1"}
    config = LaunchConfig(**one_machine | options, start_method="fork")
    # torch would search the sources of all imported modules, for the log of a rendezvous: half a second
    vars(dynamic_rendezvous)["get_method_name"] = str
    try:
        elastic_launch(config, _run_rank)(command, prepare)
    except ChildFailedError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def _begin(output: Path, environment: dict[str, str]) -> None:
    gc.freeze()  # garbage collections pass over the modules
    os.environ.update(environment)  # the server has the environment of its own start
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _run_rank(command: list[str], prepare: Callable[[], object] | None) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)  # torch asks for SIGINT at the agent's end only in forked ranks
    _run_program(command, prepare)


def _run_program(command: list[str], prepare: Callable[[], object] | None) -> None:
    torch.set_num_threads(1)
    program, *arguments = command[1:] if command[0] == "-m" else command
    sys.argv = [program, *arguments]
    if prepare:
        prepare()
    sys.exit(run_entry_point(program_main(program)))


def _run_programs(commands: list[list[str]]) -> None:
    own = sys.argv
    for program, *arguments in commands:
        sys.argv = [program, *arguments]
        if code := run_entry_point(program_main(program)):
            sys.exit(code)
    sys.argv = own
