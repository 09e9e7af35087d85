"""Metrics of translated images. To add a metric, add its file to this package and its line to METRICS.

The settings metrics.extra and checkpoint.best then accept its name.
"""

from dataclasses import replace

from metrics.efficientnet import PerceptualDistance, PooledFeatures
from metrics.metric import FeatureSource, Metric, PairMetric, SetMetric
from metrics.networks import ALEXNET, INCEPTION, KID_PROTOCOL, Inception, Lpips, frechet_distance, kernel_distance
from metrics.sliced_wasserstein import SWD_PROTOCOL, LaplacianPatches, sliced_wasserstein

FEATURES = {  # networks by value of metrics.features, for metrics that use Inception by default
    "inception": FeatureSource("inception", load=lambda device, _: Inception(device), weights=INCEPTION),
    "efficientnet_lite2": FeatureSource("efficientnet_lite2", load=lambda device, _: PooledFeatures(device)),
}
_INCEPTION = FEATURES["inception"]
_PATCHES = FeatureSource("laplacian_patches", load=lambda _, n_images: LaplacianPatches(n_images))

METRICS: dict[str, Metric] = {  # the order of the printed figures
    "l1": Metric("L1", higher_is_better=False),
    "l1_weighted": Metric("L1 weighted", higher_is_better=False, of="weighted"),
    "mae": Metric("MAE", higher_is_better=False, of="values"),
    "mae_weighted": Metric("MAE weighted", higher_is_better=False, of="weighted values"),
    "psnr": Metric("PSNR", higher_is_better=True),
    "psnr_weighted": Metric("PSNR weighted", higher_is_better=True, of="weighted"),
    "ssim": Metric("SSIM", higher_is_better=True),
    "ssim_weighted": Metric("SSIM weighted", higher_is_better=True, of="weighted"),
    "l1_shifted": Metric("L1 shifted", higher_is_better=False, of="shifted"),
    "psnr_shifted": Metric("PSNR shifted", higher_is_better=True, of="shifted"),
    "ssim_shifted": Metric("SSIM shifted", higher_is_better=True, of="shifted"),
    "shift_x": Metric("shift x", higher_is_better=None, of="shifted"),  # 0 is best
    "shift_y": Metric("shift y", higher_is_better=None, of="shifted"),
    "ms_ssim": Metric("MS-SSIM", higher_is_better=True),
    "sharpness": Metric("sharpness", higher_is_better=None),  # 1 is best
    "lpips": PairMetric("LPIPS", higher_is_better=False, load=Lpips, weights=ALEXNET),
    "perceptual_distance": PairMetric("perceptual distance", higher_is_better=False, load=PerceptualDistance),
    "swd": SetMetric(
        "SWD",
        higher_is_better=False,
        features=_PATCHES,
        score=sliced_wasserstein,
        protocol=SWD_PROTOCOL,
        least_images=1,
    ),
    "fid": SetMetric("FID", higher_is_better=False, features=_INCEPTION, score=frechet_distance),
    "kid": SetMetric("KID", higher_is_better=False, features=_INCEPTION, score=kernel_distance, protocol=KID_PROTOCOL),
    "pixel_accuracy": Metric("pixel accuracy", higher_is_better=True, of="labels"),
    "mean_iou": Metric("mean IoU", higher_is_better=True, of="labels"),
}


def with_features(metric: Metric, features: str) -> Metric:
    """Return `metric` with the network from FEATURES if the metric uses Inception by default."""
    if isinstance(metric, SetMetric) and metric.features is _INCEPTION:
        return replace(metric, features=FEATURES[features])
    return metric
