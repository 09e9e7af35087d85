"""The options of a translation, divided by what they concern; each field is the option of test.py of that name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from utils.precision import OptLevel
from utils.signatures import accepted

Existing = Literal["refuse", "replace", "keep"]


@dataclass(frozen=True)
class GeneratorOptions:
    """The generator, by default of the newest run, and the settings that replace its own.

    direction: Direction of the translation; None for the default of its method.
    """

    checkpoint: Path | None = None
    direction: str | None = None
    weights: Literal["ema", "raw"] = "ema"
    overrides: Sequence[str] = ()


@dataclass(frozen=True)
class InputOptions:
    """The images to translate, by default the test split, and the maps that belong to them.

    paths: Values of the option --input.
    nodata: Value of pixels without data, in addition to NaN and infinity. None: the value that each TIFF names.
    """

    paths: Sequence[Path] = ()
    split: str | None = None
    instances: Path | None = None
    targets: Path | None = None
    feature_maps: Path | None = None
    side: Literal["A", "B", "none"] | None = None
    nodata: float | None = None


@dataclass(frozen=True)
class DrawingOptions:
    """The instance features, noise and style of each image: drawn by a seed, or of an image."""

    features: Literal["sampled", "given"] | None = None
    clusters: Path | None = None
    noise: bool = False
    seed: int = 0
    style: Path | None = None


@dataclass(frozen=True)
class ComputeOptions:
    """How translations are computed, and on what."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    opt_level: OptLevel | None = None
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    batch_size: int = 1
    tile: int | None = None
    norm_window: int | None = None
    tta: Literal["flip"] | None = None
    max_pixels: int | None = None


@dataclass(frozen=True)
class OutputOptions:
    """Where results are written, and what happens to existing ones.

    path: Value of the option --output.
    """

    path: Path | None = None
    existing: Existing = "refuse"


@dataclass(frozen=True)
class Request:
    """All options of test.py.

    keeps_sizes: Whether images are translated at their own size.
    names_size: Whether --size chose that.
    """

    generator: GeneratorOptions = GeneratorOptions()
    input: InputOptions = InputOptions()
    drawing: DrawingOptions = DrawingOptions()
    compute: ComputeOptions = ComputeOptions()
    output: OutputOptions = OutputOptions()
    keeps_sizes: bool = False
    names_size: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the request of the options of test.py, by name.

        Images keep their sizes by default where --input names them, unless an override sets a size.
        """
        sizing = ("data.preprocess=", "data.load_", "data.crop_")
        keeps_sizes = bool(options["input"]) and not any(word.startswith(sizing) for word in options["overrides"])
        return cls(
            GeneratorOptions(**accepted(GeneratorOptions, options)),
            InputOptions(paths=options["input"], **accepted(InputOptions, options)),
            DrawingOptions(**accepted(DrawingOptions, options)),
            ComputeOptions(**accepted(ComputeOptions, options)),
            OutputOptions(path=options["output"], **accepted(OutputOptions, options)),
            keeps_sizes=keeps_sizes if options["size"] is None else options["size"] == "own",
            names_size=options["size"] is not None,
        )

    def of_training(self, preprocess: str) -> Self:
        """Return the request for a generator that was trained with a value of `data.preprocess`.

        A training on crops does not resize, so images are not resized either, unless --size says so.
        """
        return self if self.names_size or preprocess != "crop" else replace(self, keeps_sizes=True)
