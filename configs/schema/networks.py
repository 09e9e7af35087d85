"""The networks: sections `generator`, `discriminator`, `features`, `style` and `init`."""

from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from configs.schema.checks import MOST_FRACTION, MOST_HALVINGS, MOST_LAYERS, Section, number, numbers, setting
from utils.limits import TARGET_SCALES

Distribution = Literal["normal", "xavier", "kaiming", "orthogonal"]
DISTRIBUTIONS = get_args(Distribution)
MOST_UPSAMPLINGS = 7
MOST_STYLE_SIDE = 1024  # pixels: more than any image has at the lowest resolution


@dataclass(frozen=True)
class GeneratorConfig(Section, prefix="generator."):
    """The network that translates."""

    name: str = "global"
    """global: pix2pixHD's global generator; with n_downsamplings 2 it is pix2pix's ResNet generator. local: pix2pixHD's
    local enhancer. unet: pix2pix's U-Net. spade: SPADE's, for label maps. Or the name of a network of your own, which
    your program has registered (docs/library.md)."""
    base_channels: int = number(64, least=1)
    """Channels after the first convolution (ngf); each downsampling doubles them, in a U-Net up to 8 times. spade:
    channels at the full sides; the coarsest blocks have up to 16 times as many."""
    n_downsamplings: int = number(4, least=1, most=MOST_HALVINGS)
    """Number of halvings; the sides of an image must be multiples of 2**n_downsamplings. A U-Net needs 5; 8 is
    pix2pix's unet_256."""
    n_blocks: int = number(9, most=MOST_LAYERS)
    """Number of residual blocks at the lowest resolution; a U-Net has none."""
    n_enhancers: int = number(1, least=1, most=MOST_HALVINGS)
    """local: number of resolutions above the global generator's, each a further halving."""
    n_enhancer_blocks: int = number(3, most=MOST_LAYERS)
    """local: number of residual blocks of each enhancer."""
    n_upsamplings: int = number(5, least=2, most=MOST_UPSAMPLINGS)
    """spade: number of doublings; the sides of an image must be multiples of 2**n_upsamplings. 5, 6 and 7 are SPADE's
    normal, more and most; fewer suit small images."""
    n_middle_blocks: int = number(2, least=1, most=2)
    """spade: blocks of the full width behind the first one: 2 in SPADE, 1 in OASIS."""
    hidden_channels: int = number(128, least=1)
    """spade: channels of the hidden layer between the label map and the scales and shifts of each SPADE layer."""
    noise_channels: int = number(0)
    """spade: channels of noise, one value for each channel and image, next to the label map; 64 in OASIS, 0 in SPADE.
    test.py draws it by --seed."""
    norm: Literal["instance", "batch"] = "instance"
    """Normalisation layer."""
    dropout: bool = False
    """global, unet: drop half of the inner activations in training, the noise of pix2pix."""
    downsample: Literal["strided", "antialiased"] = "strided"
    """global, and the multiscale_patch discriminator next to it: strided convolutions, as in pix2pixHD and CycleGAN; or
    convolutions and a blur that halves, as in CUT."""
    skips: Literal["none", "half", "full"] = "none"
    """global: add the encoder's activations to the decoder's, so that fine lines of the source are kept. half: from
    half the size on. full: also at full size, through a convolution, which keeps thin lines sharper. The originals
    have none."""
    upsample: Literal["transposed", "nearest", "bilinear", "residual", "antialiased"] = "transposed"
    """global, local, unet: transposed convolution, as most originals; interpolation and convolution, which leave no
    checkerboard; or residual blocks, except for unet. antialiased: CUT's bilinear interpolation, only for global."""
    scale: float = setting(1.0, TARGET_SCALES.__contains__, f"one of {', '.join(f'{n:g}' for n in TARGET_SCALES)}")
    """global, unet: height of a target divided by the height of its source: 2 or 4 enlarges, 0.5 or 0.25 reduces. Sizes
    in section data are sizes of sources. The files of each pair must have exactly this ratio."""
    output: Literal["tanh", "linear"] = "tanh"
    """tanh: translations stay within the targets' range. linear: no last activation, for targets whose range is not
    closed, such as heights: neither targets nor float files of translations are clamped to data.target_range."""
    spectral_norm: bool = False
    """Divide the weights of every convolution by their largest singular value; spade: except for
    the SPADE layers, the first and the last convolution."""
    spectral_iteration: Literal["u_first", "v_first"] = "u_first"
    """Order of the updates in a step of spectral norm's power iteration, for both networks; v_first in SPADE."""


@dataclass(frozen=True)
class DiscriminatorConfig(Section, prefix="discriminator."):
    """The network that distinguishes translated from real images."""

    name: str = "multiscale_patch"
    """multiscale_patch: pix2pixHD's PatchGAN on an image pyramid; with n_scales 1 and padding 1 it is pix2pix's. pixel:
    pix2pix's 1x1 convolutions. segmentation: OASIS's U-Net, which classifies the pixels of the image; for label maps,
    with loss.gan_mode=segmentation and loss.feature_matching=0. Or the name of a network of your own, which your
    program has registered (docs/library.md)."""
    base_channels: int = number(64, least=1)
    """Channels after the first convolution (ndf); each layer doubles them, up to 512.
    segmentation: channels behind the last block; the first has twice as many, and every second block doubles them."""
    n_layers: int = number(3, least=1, most=MOST_HALVINGS)
    """multiscale_patch: number of strided layers of each PatchGAN."""
    n_downsamplings: int = number(6, least=1, most=MOST_HALVINGS)
    """segmentation: number of halvings; the sides of an image must be at least 2**n_downsamplings pixels."""
    n_scales: int = number(2, least=1, most=MOST_HALVINGS)
    """multiscale_patch: number of resolutions of the images that it sees, each half of the one before."""
    padding: int = number(2, least=1, most=MOST_LAYERS)
    """multiscale_patch: zeros around each layer's input, in pixels; 1 in pix2pix."""
    spectral_norm: Literal["none", "inner", "all"] = "none"
    """Divide the weights of convolutions by their largest singular value. inner: as in SPADE, all but the first, which
    sees the images, and the last, which scores; with segmentation, as in OASIS, all but the last. true and false of
    earlier versions are all and none."""
    norm: Literal["instance", "batch"] = "instance"
    """Normalisation layer."""


@dataclass(frozen=True)
class FeaturesConfig(Section, prefix="features."):
    """pix2pixHD's instance features: the appearance of each instance, an input of the generator next to the source."""

    n_channels: int = number(0)
    """Number of channels of the features; 3 in pix2pixHD. 0: no features."""
    origin: Literal["encoded", "precomputed"] = "encoded"
    """encoded: from the target, by an encoder that is trained with the generator. precomputed: read from
    the folder {split}_feat below data.root, where tools.precompute_features writes them; they have 3 channels."""
    regions: Literal["instances", "labels"] = "instances"
    """Pixels that share their features: the pixels of an instance, or all pixels of a class."""
    base_channels: int = number(16, least=1)
    """encoded: channels after the encoder's first convolution (nef)."""
    n_downsamplings: int = number(4, least=1, most=MOST_HALVINGS)
    """encoded: number of the encoder's halvings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_possible = self.origin == "encoded" or self.n_channels in (0, 3)
        self.require(is_possible, "n_channels", "3, because precomputed feature maps are RGB images")


@dataclass(frozen=True)
class StyleConfig(Section, prefix="style."):
    """SPADE's style encoder: the appearance of an image as a few numbers, which the generator starts from. Only
    for generator.name=spade. test.py draws the numbers by --seed, or encodes --style IMAGE."""

    channels: int = number(0)
    """Number of values of a style; 256 in SPADE. 0: no style."""
    size: list[int] = numbers("[height,width]", [8, 8], least=1, most=MOST_STYLE_SIDE)
    """Height and width of the map that the generator makes from a style at its lowest resolution. It is resized for
    images of another size. SPADE: the size of the training images divided by 2**generator.n_upsamplings."""


@dataclass(frozen=True)
class InitConfig(Section, prefix="init."):
    """Weights that a new run starts from, drawn or from a file. A resumed run has its own weights."""

    distribution: str = "normal"
    """Distribution of the convolution weights of all networks: normal, xavier, kaiming or orthogonal, also with its
    scale (default 0.02), as normal:0.02: the standard deviation of normal, the gain of xavier and orthogonal, and the
    deviation of batch norm's weights. xavier with generator.name=spade, and for a discriminator with
    spectral_norm=inner: as in SPADE, convolutions under spectral norm keep torch's weights, and biases are 0. A
    segmentation discriminator draws all weights, as in OASIS."""
    networks: dict[str, Any] = field(default_factory=dict)
    """Files of weights by network, also written as init.generator=FILE, init.discriminator=FILE or
    init.generator_BtoA=FILE. A file is a checkpoint, a run folder, or a weight file of an original, such as pix2pixHD,
    SPADE or CUT. Weights that have a place in the network are loaded; a global generator becomes the trunk of a local
    one, and a discriminator with fewer scales keeps its resolutions. The originals keep an encoder apart: it is loaded
    from latest_net_E.pth next to the file. generator and discriminator stand for all networks of their kind."""

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
