"""Parts of the networks that are not trained, some of them for the first epochs only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training.trained_network import TrainedNetwork
from utils.errors import ConfigError


@dataclass
class Freezing:
    """Freezes parameters by the beginnings of their names.

    always: prefixes behind the name of their network, as `generator.stem`.
    coarse_parts: prefixes by network, which are frozen in the first `coarse_epochs`.
    """

    networks: Mapping[str, TrainedNetwork]
    always: Sequence[str]
    coarse_parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    coarse_epochs: int = 0
    _frozen: dict[str, list[str]] = field(init=False, default_factory=dict)

    def apply(self, epoch: int) -> None:
        """Freeze what `epoch` freezes, where that differs from the epoch before.

        Raises:
            ConfigError: a network has no such part, or nothing would be left to train.
        """
        always = [part.split(".", 1) for part in self.always]
        if unknown := [network for network, _ in always if network not in self.networks]:
            raise ConfigError(f"train.freeze: no network {unknown[0]!r}; the networks are {', '.join(self.networks)}")
        for name, network in self.networks.items():
            coarse = self.coarse_parts.get(name, []) if epoch < self.coarse_epochs else []
            prefixes = [*(part for owner, part in always if owner == name), *coarse]
            if prefixes == self._frozen.get(name, []):
                continue
            try:
                network.freeze(prefixes)
            except ValueError as error:
                stage = " with train.freeze_global_epochs" if coarse else ""
                raise ConfigError(f"train.freeze{stage}, parts of {name}: {error}") from error
            self._frozen[name] = prefixes
