"""Commands, keys, options and links that README.md and docs/*.md show."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_PROGRAM = re.compile(r"(python\d*|torchrun|make|tensorboard|pip|git|source(?! =)|find|srun|sbatch|cd|grep) ")


def code_lines(text: str) -> Iterator[str]:
    """The lines of fenced and of indented blocks; one that ends in a backslash with the next."""
    is_fenced, is_indented, before, joined = False, False, "", ""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        else:
            is_indented = line.startswith("    ") and (is_indented or not before.strip())
            if is_fenced or is_indented:
                joined += line.strip()
                if joined.endswith("\\"):
                    joined = joined[:-1]
                    continue
                yield joined
                joined = ""
        before = line


def commands(document: Path) -> Iterator[str]:
    """The command lines of a document, without comments."""
    for line in code_lines(document.read_text(encoding="utf-8")):
        if _PROGRAM.match(line):
            yield without_comment(line)


def without_comment(line: str) -> str:
    return re.sub(r"\s+#.*", "", line).strip()


def prose(document: Path) -> str:
    """The whole text of a document, comments of commands left out."""
    return "\n".join(without_comment(line) for line in document.read_text(encoding="utf-8").splitlines())
