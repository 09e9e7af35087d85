"""The classes of torchmetrics that are not part of its documented interface.

A version without them fails in this file, by name, and only where a metric that needs them is asked for.
"""

from typing import IO

from torch import Tensor, nn

from utils.errors import ConfigError


def lpips_network() -> tuple[nn.Module, dict[str, Tensor]]:
    """Return LPIPS 0.1 with AlexNet, and AlexNet's weights by torchvision's names.

    The linear layers have their published weights; AlexNet's are random, to be overwritten in place.

    Raises:
        ConfigError: the installed torchmetrics does not have it.
    """
    try:
        from torchmetrics.functional.image.lpips import _LPIPS

        network = _LPIPS(net="alex", pnet_rand=True)
        weights = network.net.state_dict()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(_missing("lpips", error)) from error
    # slice2.3.weight is features.3.weight
    return network, {f"features.{key.partition('.')[2]}": value for key, value in weights.items()}


def inception_network(weights: IO[bytes], n_features: int) -> nn.Module:
    """Return torch-fidelity's InceptionV3, which maps (N, 3, H, W) uint8 images to (N, n_features) float32.

    weights: a file in the format of torch.save; it is unpickled without checks.

    Raises:
        ConfigError: the installed torchmetrics does not have it.
        RuntimeError, TypeError, AttributeError: the file holds something else.
    """
    try:
        from torchmetrics.image.fid import NoTrainInceptionV3  # takes half a second
    except ImportError as error:
        raise ConfigError(_missing("fid or kid", error)) from error
    return NoTrainInceptionV3("inception-v3-compat", [str(n_features)], weights, antialias=False)  # type: ignore[arg-type]


def _missing(names: str, error: Exception) -> str:
    return (
        f"metrics.extra has {names}, which the installed torchmetrics cannot compute ({error}). Install another: "
        'pip install "torchmetrics>=1.9,<2"'
    )
