"""Section `method`, and what each method declares of the other settings."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from configs.schema.checks import require
from configs.schema.loss import Data, LossConfig
from configs.schema.run import metrics
from configs.schema.sides import OF_MAPS, TWO_SIDES
from utils.errors import ConfigError
from utils.yaml_file import shortened


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
            expected = self.expected if key == self.key else f"{shortened(usual)}, {self.expected}"
            require(not is_refused, key, present, f"{expected} (method.name={method})")


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
    networks: names of all trained networks.
    sections: of settings that belong to this method; other methods refuse them.
    refusals: of settings that other methods have.
    check: raises ConfigError where settings contradict each other in this method.
    metrics: those of metrics.extra that are always computed.
    discriminates_pairs: whether discriminators see the source beside the image.
    compares_features: whether a loss compares features of the generator's layers, also those before norms.
    original: the program whose method it is, where that is one.
    """

    translators: Mapping[str, str]
    networks: tuple[str, ...] = ("generator", "discriminator")
    sections: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    check: Callable[[Any], None] = lambda config: None
    metrics: tuple[str, ...] = ()
    discriminates_pairs: bool = True
    compares_features: bool = False
    original: Literal["CycleGAN", "CUT"] | None = None

    @property
    def data(self) -> Data:
        """The training data of the method."""
        return "pairs" if self.discriminates_pairs else "no pairs"


_NO_TARGET = "there is no target to compare with"
_UNPAIRED = (
    Refusal("data.layout", f"one of {', '.join(TWO_SIDES)}", ("synthetic_facades", "paired_folders", "side_by_side")),
    Refusal("data.n_classes", "0: both sides are images"),
    Refusal("data.label_colors", "{}: both sides are images"),
    Refusal("data.instance_edges", "false: both sides are images"),
    Refusal("data.weight_folder", f"null: {_NO_TARGET}"),
    Refusal("data.augment", "its default: it changes the maps of a pair alike"),
    Refusal("generator.scale", "1: both sides have the same scale"),
    Refusal("features", f"its default: {_NO_TARGET}, of which instances have features"),
    Refusal("style", f"its default: {_NO_TARGET}, which has a style"),
    Refusal("discriminator.name", "multiscale_patch or pixel", values=("segmentation",)),
    Refusal("loss.gan_mode", "lsgan, vanilla, hinge or wgan", values=("segmentation",)),
    Refusal("train.retain_graph", "true: the order of the updates is that of the method"),
    Refusal("train.freeze_global_epochs", "0"),
    Refusal("metrics.label_colors", f"null: {_NO_TARGET}"),
)


def _check_unpaired(config: Any, same_channels: str) -> None:
    """Check the mask of loss.outside_mask, and that both sides have as many channels; same_channels: why, if they must.

    Raises:
        ConfigError: they contradict other settings.
    """
    data, loss = config.data, config.loss
    if not loss.outside_mask:
        expected = f"{{}} without loss.outside_mask: {_NO_TARGET}"
        require(not loss.class_weights, "loss.class_weights", loss.class_weights, expected)
    else:
        are_ids = bool(loss.class_weights) and all(name.isdecimal() for name in loss.class_weights)
        expected = "the ids of the classes that loss.outside_mask lets change, as {11: 0, 12: 0}"
        require(are_ids, "loss.class_weights", loss.class_weights, expected)
        expected = "unpaired_folders with loss.outside_mask, which reads label maps"
        require(data.layout in OF_MAPS, "data.layout", data.layout, expected)
        same_channels = same_channels or "or loss.outside_mask=0"
    if same_channels and data.target_channels != data.source_channels:
        expected = f"{data.source_channels}, as data.source_channels, {same_channels}"
        require(False, "data.target_channels", data.target_channels, expected)


METHODS: dict[str, MethodDeclaration] = {
    "paired": MethodDeclaration(
        translators={"AtoB": "generator"},
        refusals=(Refusal("data.layout", "a layout of pairs, or method.name=contrastive or cycle", values=TWO_SIDES),),
    ),
    "contrastive": MethodDeclaration(
        translators={"AtoB": "generator"},
        networks=("generator", "discriminator", "projection"),
        sections=("contrastive",),
        refusals=(
            *_UNPAIRED,
            Refusal("train.pool_size", "0: its discriminator sees present translations alone"),
        ),
        metrics=("swd",),
        check=lambda config: _check_unpaired(config, "since the features of both are compared"),
        discriminates_pairs=False,
        compares_features=True,
        original="CUT",
    ),
    "cycle": MethodDeclaration(
        translators={"AtoB": "generator_AtoB", "BtoA": "generator_BtoA"},
        networks=("generator_AtoB", "generator_BtoA", "discriminator_A", "discriminator_B"),
        sections=("cycle",),
        refusals=(
            *_UNPAIRED,
            Refusal("train.discriminator_steps", "1: both discriminators see the fakes of one step of the generators"),
        ),
        metrics=("swd",),
        check=lambda config: _check_unpaired(config, "or cycle.identity=0" if config.cycle.identity else ""),
        discriminates_pairs=False,
        original="CycleGAN",
    ),
}
"""By name, as in `training/methods`."""


@dataclass(frozen=True)
class MethodConfig:
    """How the networks are trained."""

    name: Literal["paired", "contrastive", "cycle"] = "paired"
    """paired: from pairs, with a generator and a discriminator that sees both sides (pix2pixHD, SPADE, OASIS).
    contrastive: from images without pairs, in one direction, by patches that resemble those of the source (CUT,
    FastCUT). cycle: from images without pairs, in both directions, with two generators and two discriminators
    (CycleGAN)."""

    @property
    def declaration(self) -> MethodDeclaration:
        """Return the declaration of the method."""
        return METHODS[self.name]

    @property
    def translators(self) -> Mapping[str, str]:
        """The names of the networks that translate, by direction, the default one first."""
        return self.declaration.translators

    @property
    def default_direction(self) -> str:
        """The first direction of `translators`."""
        return next(iter(self.translators))

    def translator(self, direction: str | None = None) -> str:
        """Return the name of the network that translates in a direction, by default in the default direction.

        Raises:
            ConfigError: the method trains no translator for it.
        """
        chosen = direction or self.default_direction
        if chosen not in self.translators:
            remedy = f"Leave --direction out, or train another run with data.direction={chosen}"
            known = ", ".join(self.translators)
            raise ConfigError(f"direction {chosen}: method.name={self.name} trains {known}. {remedy}.")
        return self.translators[chosen]

    def discriminator(self, direction: str | None = None) -> str:
        """Return the name of the network that judges the translations of a direction."""
        target = (direction or self.default_direction)[-1]
        return f"discriminator_{target}" if len(self.translators) > 1 else "discriminator"

    def direction_of(self, network: str | None) -> str | None:
        """Return the direction of a translator or a discriminator by its name; None for other networks."""
        networks = {way: (name, self.discriminator(way)) for way, name in self.translators.items()}
        return next((way for way, names in networks.items() if network in names), None)


def check_method(config: Any, chosen: str) -> None:
    """Raise ConfigError where a configuration has settings that the chosen method refuses, or that are another's."""
    for name, other in METHODS.items():
        for section in set(other.sections) - set(METHODS[chosen].sections):
            Refusal(section, f"its default, since it is a setting of method.name={name}").check(config, chosen)
    declaration = METHODS[chosen]
    _check_losses(config.loss, chosen, declaration.data)
    if declaration.data == "no pairs":
        _check_metrics(config, chosen)
    for refusal in declaration.refusals:
        refusal.check(config, chosen)
    for network, file in config.init.networks.items():
        known = ", ".join(declaration.networks)
        require(network in declaration.networks, f"init.{network}", file, f"null: method.name={chosen} trains {known}")
    declaration.check(config)


def _check_losses(loss: LossConfig, method: str, data: Data) -> None:
    """Raise ConfigError if a weight was set that the method cannot use; defaults of such weights have no effect."""
    usual, remedy = LossConfig(), f"0: {_NO_TARGET}" if data == "no pairs" else "0, or loss.l1: pairs have targets"
    for name, weight in loss.weights.items():
        is_usable = name in loss.weights_for(data, has_style=True) or weight in (0, getattr(usual, name))
        require(is_usable, f"loss.{name}", weight, f"{remedy} (method.name={method})")
    for name in (name for name, weight in loss.penalties.items() if weight and data == "no pairs"):
        from losses import PENALTIES  # imports torch, which most errors need not wait for

        require(
            not PENALTIES[name].needs_pairs, f"loss.{name}", getattr(loss, name), f"{remedy} (method.name={method})"
        )


def _check_metrics(config: Any, method: str) -> None:
    """Raise ConfigError if a metric was chosen that compares translations with their targets."""
    extra, best = config.metrics.extra, config.checkpoint.best
    for key, value, names, usual in (
        ("metrics.extra", extra, extra, "[]"),
        ("checkpoint.best", best, [best] if best not in ("auto", "none") else [], "auto, none"),
    ):
        if any(metrics()[name].needs_pairs for name in names):
            possible = ", ".join(name for name, metric in metrics().items() if not metric.needs_pairs)
            require(False, key, value, f"{usual} or some of {possible}: {_NO_TARGET} (method.name={method})")
