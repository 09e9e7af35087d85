import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inference.outputs import report_metrics
from metrics.evaluator import Evaluator


def test_figures_that_are_not_finite_are_null(tmp_path: Path) -> None:
    image = torch.zeros(3, 16, 16, dtype=torch.uint8)
    evaluator = Evaluator()
    good = evaluator.measure(image, image)
    measured = {"good": good, "bad": replace(good, figures=dict.fromkeys(good.figures, math.nan))}
    report_metrics(measured, evaluator.summarize([*measured.values()]), 0.1, {"origin": {}}, tmp_path)
    report = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert report["images"] == {"good": good.figures, "bad": dict.fromkeys(good.figures)}
    assert report["mean"]["l1"] is None
