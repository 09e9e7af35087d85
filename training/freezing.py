"""Parts of the networks that are not trained, some of them for the first epochs only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training.trainable import TrainableNetwork
from utils.errors import ConfigError


@dataclass
class Freezing:
    """Freezes parameters by the beginnings of their names.

    always: prefixes by network. coarse_parts: of the generator, those that are frozen in the first `coarse_epochs`.
    """

    networks: Mapping[str, TrainableNetwork]
    always: Mapping[str, Sequence[str]]
    coarse_parts: Sequence[str] = ()
    coarse_epochs: int = 0
    _frozen: dict[str, list[str]] = field(init=False, default_factory=dict)

    def apply(self, epoch: int) -> None:
        """Freeze what `epoch` freezes, where that differs from the epoch before.

        Raises:
            ConfigError: a network has no such part, or nothing would be left to train.
        """
        first = list(self.coarse_parts) if epoch < self.coarse_epochs else []
        frozen = {name: [*prefixes, *(first if name == "generator" else [])] for name, prefixes in self.always.items()}
        for name, prefixes in frozen.items():
            if prefixes == self._frozen.get(name, []):
                continue
            try:
                self.networks[name].freeze(prefixes)
            except ValueError as error:
                stage = " with train.freeze_global_epochs" if name == "generator" and first else ""
                raise ConfigError(f"train.freeze_{name}{stage}: {error}") from error
        self._frozen = frozen
