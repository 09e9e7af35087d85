from pathlib import Path

import pytest
import torch

from tests.runs import translate


@pytest.mark.parametrize(("level", "wanted"), [("O0", "ieee"), ("O2", "tf32")])
def test_float32_is_no_tf32_at_o0(tiny_run: Path, tmp_path: Path, level: str, wanted: str) -> None:
    translate("--checkpoint", str(tiny_run), "--opt-level", level, "--output", str(tmp_path))
    assert torch.backends.cudnn.conv.fp32_precision == wanted  # type: ignore[attr-defined]
