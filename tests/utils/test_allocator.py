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
