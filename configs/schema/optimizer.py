"""Sections `optimizer` and `amp`."""

import math
from dataclasses import dataclass
from typing import Literal

from configs.schema.checks import require, require_at_least


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam, one for the generator and one for the discriminator."""

    learning_rate: float = 2e-4
    """Learning rate before the decay."""
    discriminator_learning_rate: float | None = None
    """Learning rate of the discriminator, where it is to differ (TTUR, Heusel et al. 2017)."""
    decay: Literal["linear", "linear_pix2pix", "step", "plateau", "cosine"] = "linear"
    """linear: full for train.epochs, then falling to 0 as in pix2pixHD. linear_pix2pix: the same as in pix2pix, which
    begins one epoch earlier. step: a tenth after every step_epochs. plateau: a fifth when the validation samples' L1
    has not fallen by 1 % for more than 5 epochs. cosine: half a wave over all epochs, where pix2pix's ends with
    train.epochs."""
    step_epochs: int = 50
    """step: epochs between two falls."""
    beta1: float = 0.5
    """Decay of the mean of the gradients."""
    beta2: float = 0.999
    """Decay of the mean of their squares."""
    max_gradient_norm: float | None = None
    """Clip the norm of each network's gradients to this, after unscaling, and report the norms before clipping; 1e9
    only reports them. Default: neither."""

    def __post_init__(self) -> None:
        rates = {"learning_rate": self.learning_rate, "discriminator_learning_rate": self.discriminator_learning_rate}
        require_at_least(0, "optimizer", **rates)
        require_at_least(1, "optimizer", step_epochs=self.step_epochs)
        for key, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            require(0 <= beta < 1, f"optimizer.{key}", beta, "0 <= beta < 1")
        limit = self.max_gradient_norm
        require(limit is None or 0 < limit < math.inf, "optimizer.max_gradient_norm", limit, "above 0, or null")


@dataclass(frozen=True)
class AmpConfig:
    """Mixed precision, switched like apex's opt levels."""

    opt_level: Literal["O0", "O1", "O2", "O3"] = "O1"
    """O0: float32 everywhere, without TF32. O1: float32 weights, autocast in the networks. O2: weights in the low
    precision, norms and the optimizers' master weights in float32. O3: all in the low precision, the optimizers too;
    for comparison."""
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    """Low precision of O1, O2 and O3. float16 scales the losses, with a GradScaler for each optimizer. auto: bfloat16
    where the device computes in it, otherwise float16 on a GPU and float32 on a CPU."""
