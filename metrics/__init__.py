"""Metrics of translated images. A metric is added with its file in this package and its line in the registry.

The schema lists its name for metrics.extra and checkpoint.best.
"""

from metrics.fid import INCEPTION, KID_PROTOCOL, Inception, frechet_distance, kernel_distance
from metrics.lpips import ALEXNET, Lpips
from metrics.metric import FeatureSource, LabelMetric, Metric, PairMetric, SetMetric, ValueMetric, WeightedMetric

_INCEPTION = FeatureSource("inception", load=Inception, weights=INCEPTION)

METRICS: dict[str, Metric] = {  # in the order in which they are printed
    "l1": Metric("L1", lower_is_better=True),
    "l1_weighted": WeightedMetric("L1 weighted", lower_is_better=True),
    "mae": ValueMetric("MAE", lower_is_better=True),
    "psnr": Metric("PSNR", lower_is_better=False),
    "psnr_weighted": WeightedMetric("PSNR weighted", lower_is_better=False),
    "ssim": Metric("SSIM", lower_is_better=False),
    "ssim_weighted": WeightedMetric("SSIM weighted", lower_is_better=False),
    "ms_ssim": Metric("MS-SSIM", lower_is_better=False),
    "sharpness": Metric("sharpness", lower_is_better=None),  # 1 is best
    "lpips": PairMetric("LPIPS", lower_is_better=True, load=Lpips, weights=ALEXNET),
    "fid": SetMetric("FID", lower_is_better=True, features=_INCEPTION, score=frechet_distance),
    "kid": SetMetric("KID", lower_is_better=True, features=_INCEPTION, score=kernel_distance, protocol=KID_PROTOCOL),
    "pixel_accuracy": LabelMetric("pixel accuracy", lower_is_better=False),
    "mean_iou": LabelMetric("mean IoU", lower_is_better=False),
}
