import platform
import subprocess
import sys

SCRIPT = """
import resource, torch
from utils.allocator import keep_freed_memory
kept = keep_freed_memory() if {keeps} else None
for _ in range(5):
    torch.ones(16, 2**20)  # 64 MiB, more than is kept by default
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(16, 2**20)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(*, keeps: bool) -> tuple[str, int]:
    command = [sys.executable, "-c", SCRIPT.format(keeps=keeps)]
    kept, count = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return kept, int(count)


def test_memory_that_is_kept_is_not_mapped_again() -> None:
    _, by_default = page_faults(keeps=False)
    kept, count = page_faults(keeps=True)
    if kept == "True":  # glibc
        assert count < by_default / 2


def test_freed_memory_can_be_given_back() -> None:
    script = """
import torch
from pathlib import Path
from utils.allocator import give_freed_memory_back

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20

tensors = [torch.ones(2**16) for _ in range(800)]  # 200 MiB, each too small to be mapped by itself
last = torch.ones(2**16)  # keeps the heap from shrinking
del tensors
held = resident_mib()
give_freed_memory_back()
print(held - resident_mib())
"""
    if sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc":
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert int(result.stdout) > 150
