"""The registry of metrics, and the configuration's names for them."""

from typing import get_args, get_type_hints

from configs.schema import EXTRA_METRICS, CheckpointConfig
from metrics import METRICS
from metrics.evaluator import LOWER_IS_BETTER, OF_LABELS, OF_SETS, TITLES
from metrics.metric import PairMetric, SetMetric


def test_the_best_checkpoint_is_chosen_by_a_metric_that_has_a_better_direction() -> None:
    names = [name for name, metric in METRICS.items() if metric.lower_is_better is not None]
    assert list(get_args(get_type_hints(CheckpointConfig)["best"])) == ["none", *names]


def test_the_optional_metrics_are_those_of_metrics_extra() -> None:
    assert [name for name, metric in METRICS.items() if isinstance(metric, PairMetric | SetMetric)] == [*EXTRA_METRICS]


def test_the_tables_are_derived() -> None:
    assert TITLES.keys() == METRICS.keys()
    assert {"l1", "lpips", "fid", "kid"} <= LOWER_IS_BETTER
    assert not {"psnr", "ssim", "sharpness", "mean_iou"} & LOWER_IS_BETTER
    assert {"fid", "kid"} <= set(OF_SETS)
    assert {"pixel_accuracy", "mean_iou"} <= set(OF_LABELS)
    assert not set(OF_SETS) & set(OF_LABELS)
