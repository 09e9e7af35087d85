"""Section `method`, and what each method declares of the other settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

from configs.schema.checks import require


@dataclass(frozen=True)
class Refusal:
    """Settings that a method does not take: to set them is an error.

    key: a setting, or a section with all its settings. expected: what to set instead, and why.
    values: those that are refused, also as one of a list; without any, all but the default.
    """

    key: str
    expected: str
    values: tuple[object, ...] = ()

    def check(self, config: object, method: str) -> None:
        """Raise ConfigError where a configuration has a refused value."""
        section, *names = self.key.split(".")
        value = getattr(config, section)
        default = type(value)()
        for name in names:
            value, default = getattr(value, name), getattr(default, name)
        for key, present, usual in _settings(self.key, value, default):
            chosen = present if isinstance(present, list) else [present]
            is_refused = any(one in self.values for one in chosen) if self.values else present != usual
            require(not is_refused, key, present, f"{self.expected} (method.name={method})")


def _settings(key: str, value: object, default: object) -> Iterator[tuple[str, object, object]]:
    """Yield key, value and default of a setting, or of each in a section."""
    if not is_dataclass(value):
        yield key, value, default
        return
    for item in fields(value):
        yield from _settings(f"{key}.{item.name}", getattr(value, item.name), getattr(default, item.name))


@dataclass(frozen=True)
class MethodDeclaration:
    """A method as configuration and inference know it; its code is in `training/methods`.

    translators: names of the networks that translate, by direction, the default one first.
    sections: of settings that belong to this method; other methods refuse them.
    refusals: of settings that other methods have.
    discriminates_pairs: whether discriminators see the source beside the image.
    compares_features: whether a loss compares features of the generator's layers, also those before norms.
    """

    translators: Mapping[str, str]
    sections: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    discriminates_pairs: bool = True
    compares_features: bool = False


METHODS: dict[str, MethodDeclaration] = {"paired": MethodDeclaration(translators={"AtoB": "generator"})}
"""By name, as in `training/methods`."""


@dataclass(frozen=True)
class MethodConfig:
    """How the networks are trained."""

    name: Literal["paired"] = "paired"
    """paired: from pairs, with a generator and a discriminator that sees both sides (pix2pixHD, SPADE, OASIS)."""

    @property
    def discriminates_pairs(self) -> bool:
        """Whether discriminators see the source beside the image."""
        return METHODS[self.name].discriminates_pairs

    @property
    def compares_features(self) -> bool:
        """Whether a loss compares features of the generator's layers, also those before norms."""
        return METHODS[self.name].compares_features

    @property
    def translators(self) -> Mapping[str, str]:
        """The names of the networks that translate, by direction, the default one first."""
        return METHODS[self.name].translators

    @property
    def default_direction(self) -> str:
        """The first direction of `translators`."""
        return next(iter(self.translators))


def check_method(config: object, chosen: str) -> None:
    """Raise ConfigError where a configuration has settings that the chosen method refuses, or that are another's."""
    for name, other in METHODS.items():
        for section in set(other.sections) - set(METHODS[chosen].sections):
            Refusal(section, f"its default, since it is a setting of method.name={name}").check(config, chosen)
    for refusal in METHODS[chosen].refusals:
        refusal.check(config, chosen)
