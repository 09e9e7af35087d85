import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, torch
from utils.cpu_memory import keep_freed_memory
kept = {call}
for _ in range(5):
    torch.ones({mib}, 2**18)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones({mib}, 2**18)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
IS_GLIBC = sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"


def page_faults(call: str, mib: int) -> int:
    """Return the page faults of twenty tensors of a size, each freed before the next."""
    command = [sys.executable, "-c", SCRIPT.format(call=call, mib=mib)]
    kept, count = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert kept == "True" or "keep" not in call
    return int(count)


@pytest.mark.skipif(not IS_GLIBC, reason="needs glibc")
def test_memory_that_is_kept_is_not_mapped_again() -> None:
    assert page_faults("keep_freed_memory()", 64) < page_faults("None", 64) / 2


@pytest.mark.skipif(not IS_GLIBC, reason="needs glibc")
def test_large_tensors_can_be_left_out() -> None:
    call = "keep_freed_memory(gives_large_back=True)"
    assert page_faults(call, 24) < page_faults(call, 48) / 4  # half, if it too were mapped each time


@pytest.mark.skipif(not IS_GLIBC, reason="needs glibc")
def test_freed_memory_can_be_given_back() -> None:
    script = """
import torch
from pathlib import Path
from utils.cpu_memory import give_freed_memory_back

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20

tensors = [torch.ones(2**16) for _ in range(800)]  # 200 MiB, each too small to be mapped by itself
last = torch.ones(2**16)  # keeps the heap from shrinking
del tensors
held = resident_mib()
give_freed_memory_back()
print(held - resident_mib())
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(result.stdout) > 150
