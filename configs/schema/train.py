"""Section `train`."""

import re
from dataclasses import dataclass, field
from typing import Literal

from configs.schema.checks import require, require_at_least


@dataclass(frozen=True)
class TrainConfig:
    """How long and in what steps to train."""

    epochs: int = 100
    """Epochs at the full learning rate (pix2pixHD's niter)."""
    decay_epochs: int = 100
    """Epochs after those, in which the learning rate falls to 0 by the linear decays (niter_decay); step and cosine run
    over all epochs."""
    max_steps: int | None = None
    """Stop after this many steps, wherever the epochs stand. Default: no limit."""
    validation_share: float = 0.0
    """Share of the training samples that is held back where the data set has no split for validation: they are in no
    batch and serve as its samples. Which ones follows from their names, so that adding samples moves none. 0: none;
    training samples are then shown."""
    validation_group: str | None = None
    """A regular expression on the names of samples, as p[0-9]+ on p001_slice03: samples in whose names it, or its
    parentheses, find the same are one group. Groups are held back as wholes, so that no patient or scene is on both
    sides, and validation_share counts them. null: each sample by itself."""
    batch_size: int = 1
    """Samples per process in one forward pass."""
    accumulation_steps: int = 1
    """Forward and backward passes whose gradients are averaged into one step."""
    discriminator_steps: int = 1
    """Updates of the discriminator for each of the generator, each on samples of its own."""
    ema_decay: float = 0.0
    """Decay of the moving average of the generator's weights, which is shown in validation and used by test.py; 0.999
    is usual. 0: no average. Before each validation and checkpoint the average's statistics of batch norm are estimated
    from 20 batches of training samples."""
    retain_graph: bool = True
    """true: one pass of the discriminator, whose graph serves the losses of both networks (pix2pixHD's update). false:
    the discriminator steps first, and makes another pass for the generator's loss (pix2pix's update)."""
    activation_checkpointing: bool = False
    """Keep only the activations between the stages of generator and VGG, and compute those within again in the backward
    pass: less memory, more time."""
    compile: bool = False
    """Fuse the generator's layers with torch.compile, which takes up to a minute before the first step. A C++ compiler
    has to be there, on a GPU triton."""
    deterministic: bool = False
    """Use deterministic algorithms alone, so that on a GPU too a resumed run ends with the same bits; slower, and
    without cudnn_benchmark. An operation that has no deterministic algorithm is named once in a warning. On a CPU,
    where runs are exact in any case, it changes nothing."""
    channels_last: Literal["auto", "always", "never"] = "auto"
    """Layout of the networks in memory, in training and translation. auto: channels last on a GPU, whose tensor cores
    want it, on a CPU in training without pairs, and for VGG19 on CPUs with matrix units (AMX)."""
    cudnn_benchmark: bool = True
    """Have a GPU try which algorithm of each convolution is the fastest, when a size comes for the first time."""
    profile_steps: int = 0
    """Steps of which to write a trace of torch.profiler, after 10 others, to trace.json.gz in the run's folder, for
    ui.perfetto.dev. 0: none."""
    pool_size: int = 0
    """Earlier translations that the discriminator sees, half of the time, in place of the present ones (Shrivastava et
    al. 2017). They take memory, and room in checkpoints. 0: none."""
    freeze_global_epochs: int = 0
    """generator.name=local: epochs in which only its finest enhancer is trained (pix2pixHD's niter_fix_global)."""
    freeze: list[str] = field(default_factory=list)
    """Parts of networks that are not trained, by network and the beginnings of their parameters' names:
    [generator.stem, discriminator.scales.0]. A name that is not there is answered with those that are. The statistics
    of batch norm and spectral norm still change."""

    def __post_init__(self) -> None:
        counts = {"epochs": self.epochs, "decay_epochs": self.decay_epochs, "pool_size": self.pool_size}
        counts |= {"freeze_global_epochs": self.freeze_global_epochs, "profile_steps": self.profile_steps}
        require_at_least(0, "train", **counts)
        require(self.epochs + self.decay_epochs > 0, "train.epochs + train.decay_epochs", 0, "at least 1 epoch")
        require_at_least(1, "train", max_steps=self.max_steps, batch_size=self.batch_size)
        steps = {"accumulation_steps": self.accumulation_steps, "discriminator_steps": self.discriminator_steps}
        require_at_least(1, "train", **steps)
        are_parts = all(type(part) is str and all(part.partition(".")) for part in self.freeze)
        require(are_parts, "train.freeze", self.freeze, "a list of parts of networks: [generator.stem]")
        require(0 <= self.validation_share < 1, "train.validation_share", self.validation_share, "0 <= share < 1")
        self._check_group()
        require(0 <= self.ema_decay < 1, "train.ema_decay", self.ema_decay, "0 <= decay < 1")

    def _check_group(self) -> None:
        expected = "null, or a regular expression such as p[0-9]+"
        require(self.validation_group != "", "train.validation_group", "empty", expected)
        try:
            re.compile(self.validation_group or "")
        except (re.error, OverflowError, RecursionError) as error:
            require(False, "train.validation_group", self.validation_group, f"{expected}: {error}")
