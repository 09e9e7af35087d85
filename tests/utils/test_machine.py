from pathlib import Path

import pytest

from utils import machine


def test_a_container_may_have_less_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_machine, limit = machine.memory_bytes.__wrapped__, tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_LIMITS", (str(limit), str(tmp_path / "none")))
    whole = of_machine()
    assert whole > 2**28
    for content, expected in (("max\n", whole), ("1000000\n", 10**6), (str(whole * 2), whole)):
        limit.write_text(content)
        assert of_machine() == expected
