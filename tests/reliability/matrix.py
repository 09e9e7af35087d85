"""The faults that a run meets, and what is promised for each: the table of docs/reliability.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- table: written by make test-all -->", "<!-- end of the table -->"


@dataclass(frozen=True)
class Row:
    """One kind of fault. n_wanted: the cases that a long run has to have tried."""

    n_wanted: int
    fault: str
    promise: str


ROWS = {
    1: Row(
        220,
        "kill -9 at random instants during saving",
        "a valid checkpoint; the resumed run equals the uninterrupted one",
    ),
    2: Row(10, "kill -9 at chosen points of saving", "the same"),
    3: Row(
        10, "full or failing disk", "the old checkpoint stays valid; the run continues, retries, ends after 3 failures"
    ),
    4: Row(26, "SIGTERM, SIGINT, SIGHUP, SIGUSR1", "the step is finished and saved, exit code 128+n, exact resume"),
    5: Row(4, "the same under torchrun", "all processes stop at one step, one checkpoint, no orphan"),
    6: Row(11, "a process of several is lost", "the others end within seconds, and --max-restarts resumes"),
    7: Row(
        1200, "damaged checkpoint, or another file", "detected; an earlier one is used, or one line names the remedy"
    ),
    8: Row(42, "malicious checkpoint", "refused; none of its code is run"),
    9: Row(8, "dangerous code in this project", "none"),
    10: Row(68, "damaged, hostile and unusual images", "read alike everywhere, or reported with the reason"),
    11: Row(10, "invalid labels", "file, pixel, value and allowed range are reported"),
    12: Row(16, "missing or invalid pairs", "a report before training"),
    13: Row(
        6, "data set changed between save and resume", "refused with the difference, or continued from the next epoch"
    ),
    14: Row(18, "numbers that are not finite", "no update from them, an error message, no poisoned checkpoint"),
    15: Row(50, "configuration", "exit code 2, a line for each problem"),
    16: Row(10, "paths", "nothing is written outside, no two results in one file"),
    17: Row(16, "environment", "refused at once, in one line with the remedy"),
    18: Row(5, "loader process", "the run ends with the cause, the checkpoint stays valid"),
    19: Row(30, "resume in the middle of an epoch", "equals the uninterrupted run bit for bit"),
    20: Row(2, "TensorBoard after a resume", "steps increase"),
    21: Row(4, "many steps and saves", "memory and open files stay constant"),
    22: Row(3500, "mutated files", "documented exceptions only, no crash"),
}


def write_table(passed: Mapping[int, int], failed: Mapping[int, int], what: str) -> None:
    """Put the counts of cases by row into the document; `what` says when and with what they were run.

    A row of which nothing was run keeps its line.
    """
    text = TABLE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    earlier = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("|")}
    lines = [what, "", "| # | fault | promise | cases | result |", "|---|---|---|---|---|"]
    for number, row in ROWS.items():
        n_passed, n_failed = passed.get(number, 0), failed.get(number, 0)
        if not n_passed + n_failed and str(number) in earlier:
            lines.append(earlier[str(number)])
            continue
        is_complete = n_passed >= row.n_wanted
        result = f"{n_failed} failed" if n_failed else "all passed" if is_complete else f"{n_passed} of {row.n_wanted}"
        lines.append(f"| {number} | {row.fault} | {row.promise} | {n_passed + n_failed} | {result} |")
    TABLE.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}", encoding="utf-8")
