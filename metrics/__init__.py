"""Metrics of translated images. A metric is added with its file in this package and its line in the registry.

The schema lists its name for metrics.extra and checkpoint.best.
"""

from metrics.fid import KID_PROTOCOL, frechet_distance, kernel_distance
from metrics.metric import FeatureSource, Metric, PairMetric, SetMetric
from metrics.networks import ALEXNET, INCEPTION, Inception, Lpips
from metrics.sliced_wasserstein import SWD_PROTOCOL, LaplacianPatches, sliced_wasserstein

_INCEPTION = FeatureSource("inception", load=lambda device, _: Inception(device), weights=INCEPTION)
_PATCHES = FeatureSource("laplacian_patches", load=lambda _, n_images: LaplacianPatches(n_images))

METRICS: dict[str, Metric] = {  # in the order in which they are printed
    "l1": Metric("L1", lower_is_better=True),
    "l1_weighted": Metric("L1 weighted", lower_is_better=True, of="weighted"),
    "mae": Metric("MAE", lower_is_better=True, of="values"),
    "mae_weighted": Metric("MAE weighted", lower_is_better=True, of="weighted values"),
    "psnr": Metric("PSNR", lower_is_better=False),
    "psnr_weighted": Metric("PSNR weighted", lower_is_better=False, of="weighted"),
    "ssim": Metric("SSIM", lower_is_better=False),
    "ssim_weighted": Metric("SSIM weighted", lower_is_better=False, of="weighted"),
    "ms_ssim": Metric("MS-SSIM", lower_is_better=False),
    "sharpness": Metric("sharpness", lower_is_better=None),  # 1 is best
    "lpips": PairMetric("LPIPS", lower_is_better=True, load=Lpips, weights=ALEXNET),
    "swd": SetMetric(
        "SWD",
        lower_is_better=True,
        features=_PATCHES,
        score=sliced_wasserstein,
        protocol=SWD_PROTOCOL,
        least_images=1,
    ),
    "fid": SetMetric("FID", lower_is_better=True, features=_INCEPTION, score=frechet_distance),
    "kid": SetMetric("KID", lower_is_better=True, features=_INCEPTION, score=kernel_distance, protocol=KID_PROTOCOL),
    "pixel_accuracy": Metric("pixel accuracy", lower_is_better=False, of="labels"),
    "mean_iou": Metric("mean IoU", lower_is_better=False, of="labels"),
}
