"""The faults that a run meets, and what is promised for each: the table of docs/reliability.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- table: written by make test-all -->", "<!-- end of the table -->"


@dataclass(frozen=True)
class Row:
    """One kind of fault."""

    fault: str
    promise: str


ROWS = {
    1: Row("kill -9 at random instants while saving", "a loadable checkpoint; going on equals the uninterrupted run"),
    2: Row("kill -9 at chosen points of saving", "the same"),
    3: Row("full or failing disk", "the old checkpoint stays whole; the run goes on, retries, ends at 3 failures"),
    4: Row("SIGTERM, SIGINT, SIGHUP, SIGUSR1", "the step is finished and saved, exit code 128+n, exact resume"),
    5: Row("the same under torchrun", "all processes stop at one step, one checkpoint, no orphan"),
    6: Row("a process of several is lost", "the others end within seconds, and --max-restarts goes on"),
    7: Row("damaged checkpoint, or another file", "found; an earlier one is used, or one line tells the way out"),
    8: Row("malicious checkpoint", "refused, and nothing of it is run"),
    9: Row("dangerous code in this project", "none"),
    10: Row("damaged, hostile and unusual images", "read alike everywhere, or named with the reason"),
    11: Row("labels that are none", "file, pixel, value and allowed range are told"),
    12: Row("pairs that are none", "a report before training"),
    13: Row("data set changed between save and resume", "refused with the difference, or on from the next epoch"),
    14: Row("numbers that are not finite", "no update from them, an end in words, no poisoned checkpoint"),
    15: Row("configuration", "exit code 2, a line for each problem"),
    16: Row("paths", "nothing written outside, no two results in one file"),
    17: Row("environment", "refused at once, in one line with the way out"),
    18: Row("loader process", "the run ends with the cause, the checkpoint stays whole"),
    19: Row("resume in the middle of an epoch", "equals the uninterrupted run bit for bit"),
    20: Row("TensorBoard after a resume", "steps rise"),
    21: Row("many steps and saves", "memory and open files stay flat"),
    22: Row("mutated files", "documented exceptions only, no death by a signal"),
}


def write_table(passed: Mapping[int, int], failed: Mapping[int, int], what: str) -> None:
    """Put the counts of cases by row into the document; `what` says when and with what they were run."""
    lines = [what, "", "| # | fault | promise | cases | result |", "|---|---|---|---|---|"]
    for number, row in ROWS.items():
        n_passed, n_failed = passed.get(number, 0), failed.get(number, 0)
        result = f"{n_failed} failed" if n_failed else "all passed" if n_passed else "not run"
        lines.append(f"| {number} | {row.fault} | {row.promise} | {n_passed + n_failed} | {result} |")
    text = TABLE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    TABLE.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}", encoding="utf-8")
