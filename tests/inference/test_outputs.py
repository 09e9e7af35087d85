import json
import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inference.outputs import report_metrics
from metrics.evaluator import Evaluator, Summary


def test_figures_that_are_not_finite_are_null(tmp_path: Path) -> None:
    image = torch.zeros(3, 16, 16, dtype=torch.uint8)
    evaluator = Evaluator()
    good = evaluator.measure(image, image)
    measured = {"good": good, "bad": replace(good, figures=dict.fromkeys(good.figures, math.nan))}
    report_metrics(measured, evaluator.summarize([*measured.values()]), {"l1": 0.1}, {"origin": {}}, tmp_path)
    report = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert report["images"] == {"good": good.figures, "bad": dict.fromkeys(good.figures)}
    assert report["mean"]["l1"] is None


def test_a_generator_is_compared_with_a_constant_colour(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    report_metrics({}, Summary({"l1": 0.3}, {}, {}), {"l1": 0.2}, {"origin": {}}, tmp_path)
    assert "L1 0.2000; the generator is 50.0% above" in caplog.text
    summary = Summary({"l1": 0.3, "l1_weighted": 0.1}, {}, {})
    report_metrics({}, summary, {"l1": 0.2, "l1_weighted": 0.2}, {"origin": {}}, tmp_path)
    assert "L1 weighted 0.2000; the generator is 50.0% below" in caplog.text
    report = json.loads((tmp_path / "metrics.json").read_text())
    assert report["constant_color_floor"] == {"l1": 0.2, "l1_weighted": 0.2}
    assert (report["l1_below_floor"], report["l1_weighted_below_floor"]) == pytest.approx((-0.5, 0.5))
