"""The networks: sections `generator`, `discriminator`, `features`, `style` and `init`."""

from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from configs.schema.checks import MOST_FRACTION, MOST_HALVINGS, MOST_LAYERS, Section, number, numbers, setting
from utils.limits import TARGET_SCALES

Distribution = Literal["normal", "xavier", "kaiming", "orthogonal"]
DISTRIBUTIONS = get_args(Distribution)
MOST_UPSAMPLINGS = 7
MOST_STYLE_SIDE = 1024  # pixels; no image has more at the lowest resolution


@dataclass(frozen=True)
class GeneratorConfig(Section, prefix="generator."):
    """The network that translates images."""

    name: str = "global"
    """global: pix2pixHD's global generator; with n_downsamplings 2 it is pix2pix's ResNet generator. local: pix2pixHD's
    local enhancer. unet: pix2pix's U-Net. spade: SPADE's generator, for label maps. Any other name: a network that your
    own program registers (docs/library.md)."""
    base_channels: int = number(64, least=1)
    """Number of channels after the first convolution (ngf). Each downsampling doubles the channels; a U-Net stops at 8
    times this number. spade: number of channels at full resolution; the coarsest blocks have up to 16 times as many."""
    n_downsamplings: int = number(4, least=1, most=MOST_HALVINGS)
    """Number of halvings. The sides of an image must be multiples of 2**n_downsamplings. A U-Net needs at least 5;
    pix2pix's unet_256 has 8."""
    n_blocks: int = number(9, most=MOST_LAYERS)
    """Number of residual blocks at the lowest resolution; a U-Net has none."""
    n_enhancers: int = number(1, least=1, most=MOST_HALVINGS)
    """local: number of enhancers. Each enhancer encloses a network of half its resolution."""
    n_enhancer_blocks: int = number(3, most=MOST_LAYERS)
    """local: number of residual blocks of each enhancer."""
    n_upsamplings: int = number(5, least=2, most=MOST_UPSAMPLINGS)
    """spade: number of doublings. The sides of an image must be multiples of 2**n_upsamplings. 5, 6 and 7 are SPADE's
    options normal, more and most. Small images need fewer."""
    n_middle_blocks: int = number(2, least=1, most=2)
    """spade: number of further blocks with the width of the first block; 2 in SPADE, 1 in OASIS."""
    hidden_channels: int = number(128, least=1)
    """spade: number of hidden channels in each SPADE layer, between the label map and the scales and shifts."""
    noise_channels: int = number(0)
    """spade: number of noise channels next to the label map; 64 in OASIS, 0 in SPADE. Each image has one random value
    per channel. test.py draws these values with --seed."""
    norm: Literal["instance", "batch"] = "instance"
    """Normalisation layer."""
    dropout: bool = False
    """global, unet: in training, drop half of the inner activations. This is the noise of pix2pix."""
    downsample: Literal["strided", "antialiased"] = "strided"
    """Downsampling of global, and of a multiscale_patch discriminator used with it. strided: strided convolutions
    (pix2pixHD, CycleGAN). antialiased: a convolution, then a blur that halves the resolution (CUT)."""
    skips: Literal["none", "half", "full"] = "none"
    """global: add the encoder's activations to the decoder's activations, which keeps fine lines of the source. half:
    only at half the resolution and below. full: also at full resolution, through a convolution, which keeps thin lines
    sharper. none: as in the original networks."""
    upsample: Literal["transposed", "nearest", "bilinear", "residual", "antialiased"] = "transposed"
    """Upsampling of global, local and unet. transposed: transposed convolution, as in most papers. nearest,
    bilinear: interpolation and a convolution, which leave no checkerboard. residual: residual blocks, not for unet.
    antialiased: CUT's bilinear interpolation, only for global."""
    scale: float = setting(1.0, TARGET_SCALES.__contains__, f"one of {', '.join(f'{n:g}' for n in TARGET_SCALES)}")
    """global, unet: height of a target divided by the height of its source. 2 and 4 enlarge, 0.5 and 0.25 reduce. Sizes
    in section data are sizes of sources. The files of each pair must have exactly this ratio."""
    output: Literal["tanh", "linear"] = "tanh"
    """tanh: translations stay within the targets' range. linear: no last activation, for targets with an open range,
    such as heights. Neither targets nor float files of translations are then clamped to data.target_range."""
    spectral_norm: bool = False
    """Use spectral norm in every convolution. spade: except in the SPADE layers and in the first and the last
    convolution."""
    spectral_iteration: Literal["u_first", "v_first"] = "u_first"
    """Order of the updates in the power iteration of spectral norm, for generator and discriminator; v_first in
    SPADE."""


@dataclass(frozen=True)
class DiscriminatorConfig(Section, prefix="discriminator."):
    """The network that distinguishes translated from real images."""

    name: str = "multiscale_patch"
    """multiscale_patch: pix2pixHD's PatchGAN on an image pyramid; with n_scales 1 and padding 1 it is pix2pix's
    PatchGAN. projected: four small discriminators on features of EfficientNet-Lite0 (Sauer et al. 2021). They need
    images of at least 19 pixels. pixel: pix2pix's 1x1 convolutions. segmentation: OASIS's U-Net, which classifies
    pixels. It needs label maps, loss.gan_mode=segmentation and loss.feature_matching=0. Any other name: a network that
    your own program registers (docs/library.md)."""
    base_channels: int = number(64, least=1)
    """Number of channels after the first convolution (ndf). Each layer doubles it, up to 512. segmentation: number of
    channels after the last block. The first two blocks have twice this number, which then doubles every two blocks."""
    n_layers: int = number(3, least=1, most=MOST_HALVINGS)
    """multiscale_patch: number of strided layers of each PatchGAN."""
    n_downsamplings: int = number(6, least=1, most=MOST_HALVINGS)
    """segmentation: number of halvings. The sides of an image must have at least 2**n_downsamplings pixels."""
    n_scales: int = number(2, least=1, most=MOST_HALVINGS)
    """multiscale_patch: number of PatchGANs. Each sees the images at half the resolution of the previous PatchGAN."""
    padding: int = number(2, least=1, most=MOST_LAYERS)
    """multiscale_patch: zero padding of each layer's input, in pixels; 1 in pix2pix."""
    spectral_norm: Literal["none", "inner", "all"] = "none"
    """Convolutions with spectral norm. inner: all except the first and the last convolution, as in SPADE; for
    segmentation all except the last convolution, as in OASIS. Earlier versions used true for all and false for none."""
    norm: Literal["instance", "batch"] = "instance"
    """Normalisation layer."""


@dataclass(frozen=True)
class FeaturesConfig(Section, prefix="features."):
    """pix2pixHD's instance features, which describe the appearance of each instance. They are added to the source as
    channels."""

    n_channels: int = number(0)
    """Number of channels of the features; 3 in pix2pixHD. 0: no features."""
    origin: Literal["encoded", "precomputed"] = "encoded"
    """encoded: an encoder, trained with the generator, computes features from the target. precomputed: features are
    read from the folder {split}_feat below data.root. tools.precompute_features writes such files, with 3 channels."""
    regions: Literal["instances", "labels"] = "instances"
    """Pixels that share the same features. instances: all pixels of an instance. labels: all pixels of a class."""
    base_channels: int = number(16, least=1)
    """encoded: number of channels after the encoder's first convolution (nef)."""
    n_downsamplings: int = number(4, least=1, most=MOST_HALVINGS)
    """encoded: number of halvings in the encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_possible = self.origin == "encoded" or self.n_channels in (0, 3)
        self.require(is_possible, "n_channels", "3, because precomputed feature maps are RGB images")


@dataclass(frozen=True)
class StyleConfig(Section, prefix="style."):
    """SPADE's style encoder, only for generator.name=spade. A style is a vector that describes the appearance of an
    image. The generator starts from the style. test.py draws a style (--seed), or encodes an image (--style IMAGE)."""

    channels: int = number(0)
    """Number of values of a style; 256 in SPADE. 0: no style."""
    size: list[int] = numbers("[height,width]", [8, 8], least=1, most=MOST_STYLE_SIDE)
    """Height and width of the map that the generator computes from a style, at its lowest resolution. For images of
    another size, the map is resized. SPADE: the size of the training images divided by 2**generator.n_upsamplings."""


@dataclass(frozen=True)
class InitConfig(Section, prefix="init."):
    """Initial weights of a new run, drawn or loaded from a file. A resumed run continues with its own weights."""

    distribution: str = "normal"
    """Distribution of the convolution weights: normal, xavier, kaiming or orthogonal, with an optional scale such as
    normal:0.02 (the default scale). The scale is the standard deviation of normal and of batch norm weights, and the
    gain of xavier and orthogonal. For a spade generator, and for a discriminator with spectral_norm=inner,
    xavier follows SPADE: biases are 0, and convolutions under spectral norm keep torch's weights. For a segmentation
    discriminator all weights are drawn, as in OASIS."""
    networks: dict[str, Any] = field(default_factory=dict)
    """Weight files by network, also written as init.generator=FILE, init.discriminator=FILE or
    init.generator_BtoA=FILE. FILE is a checkpoint, a run folder, or a weight file of an original program, such as
    pix2pixHD, SPADE or CUT. All weights that fit the network are loaded. A global generator is loaded into the inner
    part of a local generator. A discriminator with fewer scales is loaded into the scales with the same resolutions.
    The original programs store encoders separately, so an encoder is loaded from latest_net_E.pth next to FILE. The
    names generator and discriminator stand for all generators and all discriminators."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "networks", {name: file for name, file in self.networks.items() if file is not None})
        kind, _, gain = self.distribution.partition(":")
        try:
            is_known = kind in DISTRIBUTIONS and 0 <= float(gain or 0) <= MOST_FRACTION
        except ValueError:
            is_known = False
        self.require(is_known, "distribution", f"one of {', '.join(DISTRIBUTIONS)}, or with a scale: normal:0.02")

    @property
    def kind(self) -> Distribution:
        """The name of the distribution."""
        return cast(Distribution, self.distribution.partition(":")[0])

    @property
    def gain(self) -> float:
        """The scale of the distribution."""
        return float(self.distribution.partition(":")[2] or 0.02)
