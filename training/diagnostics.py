"""Hints for the user, where the figures of a training show that it is stuck."""

from collections.abc import Mapping

# mean logits (real, translated) beyond which the discriminator has nothing left to learn, by adversarial loss
_WON = {"lsgan": (0.9, 0.1), "hinge": (1.0, -1.0), "vanilla": (4.0, -4.0)}
_REPORTS = 3  # in a row: one alone is chance
_LOW_SCALE = 64.0  # GradScaler begins at 65536


class Diagnostics:
    """Gives hints on the figures of a report: each once, and again after its cause has disappeared and returned.

    gan_mode: the adversarial loss, if the method has one; wgan's logits have no bounds and are ignored.
    """

    def __init__(self, gan_mode: str = "") -> None:
        self._won = _WON.get(gan_mode)
        self._n_won = 0
        self._low: set[str] = set()

    def __call__(self, scalars: Mapping[str, float]) -> list[str]:
        """Return the hints for one report, given its scalars by tag."""
        return [*self._discriminator(scalars), *self._scales(scalars)]

    def _discriminator(self, scalars: Mapping[str, float]) -> list[str]:
        real, fake = scalars.get("logits/D/real"), scalars.get("logits/D/fake")
        if self._won is None or real is None or fake is None:
            return []
        has_won = real > self._won[0] and fake < self._won[1]
        self._n_won = self._n_won + 1 if has_won else 0
        if self._n_won != _REPORTS:
            return []
        return [
            f"the discriminator has won: in the mean it gives real images {real:.2f} and translated ones {fake:.2f}, "
            "from which the generator learns little. Lower optimizer.discriminator_learning_rate, or set "
            "discriminator.spectral_norm=all in a new run"
        ]

    def _scales(self, scalars: Mapping[str, float]) -> list[str]:
        hints = []
        prefix = "amp/scale/"
        for name, scale in ((t.removeprefix(prefix), value) for t, value in scalars.items() if t.startswith(prefix)):
            is_low = 1.0 != scale < _LOW_SCALE  # 1: there is no scaler
            if is_low and name not in self._low:
                hints.append(
                    f"the scale of the {name}'s gradients has fallen to {scale:g}, since float16 overflows repeatedly"
                    ": use amp.dtype=bfloat16, or amp.opt_level=O0"
                )
            self._low = self._low | {name} if is_low else self._low - {name}
        return hints
