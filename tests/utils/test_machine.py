import platform
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch

from utils import machine
from utils.machine import git_commit
from utils.worker_threads import in_order, worker_threads

SCRIPT = """
import resource, torch
from pathlib import Path
from utils.machine import give_freed_memory_back, keep_freed_memory

def page_faults(mib):
    "Return the page faults of ten tensors of a size, each freed before the next."
    for _ in range(5):
        torch.ones(mib, 2**18)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(mib, 2**18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20

by_default = page_faults(34)
assert keep_freed_memory(gives_large_back=True)
assert page_faults(12) < page_faults(34) / 2
assert keep_freed_memory()
assert page_faults(34) < by_default / 2
tensors = [torch.ones(2**16) for _ in range(800)]  # 200 MiB, each too small to be mapped by itself
last = torch.ones(2**16)  # keeps the heap from shrinking
del tensors
held = resident_mib()
give_freed_memory_back()
assert held - resident_mib() > 150
"""


def test_a_container_may_have_less_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_machine, limit = machine.memory_bytes.__wrapped__, tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CONTAINER_LIMITS", (str(limit), str(tmp_path / "none")))
    whole = of_machine()
    assert whole > 2**28
    for content, expected in (("max\n", whole), ("1000000\n", 10**6), (str(whole * 2), whole)):
        limit.write_text(content)
        assert of_machine() == expected


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
@pytest.mark.slow
def test_memory_is_kept_or_given_back() -> None:
    """In a process of its own, whose allocator nothing else has changed."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


def test_the_commit_of_a_clone_and_whether_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    assert git_commit(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert git_commit(tmp_path) is None  # no repository
    (tmp_path / "file").write_text("a")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True)
    assert git_commit(tmp_path) == head[:12]
    (tmp_path / "file").write_text("b")
    assert git_commit(tmp_path) == f"{head[:12]}-dirty"
    monkeypatch.setenv("PATH", str(tmp_path))  # without git
    assert git_commit(tmp_path) is None


def test_an_error_leaves_the_others_and_an_interruption_what_has_not_begun() -> None:
    with worker_threads() as pool:
        calls = list(in_order(pool, lambda number: 1 / number, [1, 0, 2], 3))
        assert isinstance(calls[1].exception(), ZeroDivisionError)
        assert calls[2].result() == 0.5
    sleeps: list[Future[None]] = []

    def interrupted() -> None:
        with worker_threads() as pool:
            sleeps.extend(pool.submit(time.sleep, 0.02) for _ in range(50))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(sleep.done() for sleep in sleeps)
    assert sleeps[-1].cancelled()


def test_torch_has_one_thread_in_each_and_as_before_in_the_main_one() -> None:
    before = torch.get_num_threads()
    with worker_threads() as pool:
        assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == before
