"""The images to translate: a split of the data set, a folder, or a list of files and folders.

Where they are joined pictures as pix2pix stores them, A on the left and B on the right, one half is the source.
"""

import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from configs.data_facts import allowing_missing
from configs.schema import ROOT, Config
from configs.splits import check_has_split, has_split, open_split, translated_split
from data.batch import DataError, Sample
from data.files.image_files import find_image_paths, find_images, read_size
from data.folder import Blob, LocalFile, local_folder
from data.layout import DerivedLayout, Layout, Provenance
from data.map_reader import MapReader, source_kinds
from data.paired_folders import PairedFolders, halves
from inference.load import LoadedGenerator, directions_of
from inference.request import Request
from models.instance_features import FeatureConditionedGenerator
from utils.distributed import World
from utils.errors import UserError
from utils.log import logger
from utils.paths import without_dots
from utils.text import counted

STANDARD_INPUT = Path("-")
SAME_PROPORTIONS = 0.1  # of the aspect ratio: 16:9 is not twice 1:1

Side = Literal["A", "B"]
"""Of a joined picture."""


def with_listed_inputs(paths: Sequence[Path], world: World) -> Sequence[Path]:
    """Return the paths of --input, with the paths from standard input, one per line, instead of `-`.

    The main process reads for all processes.

    Raises:
        DataError: Standard input holds no path.
    """
    if STANDARD_INPUT not in paths:
        return paths
    lines = sys.stdin.read().splitlines() if world.is_main else []
    listed = world.gather([Path(line) for line in lines if line.strip()])[0]
    if not listed:
        raise DataError("--input -: standard input holds no path. Write one per line, as find does.")
    return [*(path for path in paths if path != STANDARD_INPUT), *listed]


def build_input(loaded: LoadedGenerator, request: Request) -> Layout:
    """Return the samples to translate: those of --input, or a split of the data set that the generator was trained on.

    Raises:
        DataError: a folder is missing or empty, a file lacks a partner, or the generator needs maps that are not named.
    """
    config, conditioning = loaded.reading_config, loaded.conditioning
    if request.input:
        _check_maps_are_named(request, loaded)
        layout = without_joined_pictures(_named_input(request, loaded), loaded, request)
    elif loaded.step is None and config.data.root == ROOT:
        remedy = "Name a folder of sources with --input DIR, or a data set with data.root=DIR"
        raise DataError(f"{loaded.file}: names no data set. {remedy}.")
    else:
        split = request.split or translated_split(config)
        others = [f"--direction {way}" for way in directions_of(None, loaded) if way != loaded.direction]
        if not (others and has_split(replace(config, data=config.data.reversed), split)):
            others = []
        check_has_split(config, split, other_choice=" or ".join([*others, "--input FOLDER"]))
        layout = open_split(config, split, needs_targets=False, allows_missing=True)
    if loaded.clusters is None and conditioning.features == "encoded":
        _check_features_can_be_encoded(loaded, layout)
    return layout


def _check_maps_are_named(request: Request, loaded: LoadedGenerator) -> None:
    """Raise DataError unless --input is accompanied by the other maps that the generator needs."""
    conditioning = loaded.conditioning
    if loaded.data_facts.reads_instances and request.instances is None:
        can_take_labels = loaded.clusters is not None and not conditioning.instance_edges
        other = ", or set features.regions=labels" if can_take_labels else ""
        other += ", or make them from the label maps: data.instances=connected" if conditioning.n_classes else ""
        raise DataError(f"--input: this generator also needs instance maps. Add --instances DIR{other}.")
    if conditioning.features == "precomputed" and request.feature_maps is None:
        raise DataError(
            "--input: this generator also needs instance features. Add --clusters FILE or --feature-maps DIR."
        )


def _named_input(request: Request, loaded: LoadedGenerator) -> Layout:
    """Return the samples of --input; in a single folder, partners may have other endings of their names."""
    facts, conditioning = loaded.data_facts, loaded.conditioning
    instances = request.instances if conditioning.needs_instances else None
    features = request.feature_maps if conditioning.features == "precomputed" else None
    makes_instances = conditioning.needs_instances and instances is None
    reader = facts.map_reader(allowing_missing(facts.trained_storage), needs_instances=makes_instances)
    partners = {"instances": instances, "target": request.targets, "features": features}
    first, *others = request.input
    is_stacked = bool(facts.stack)
    if is_stacked:
        _check_stack(request.input, loaded.config.data.source_folder)
    if _is_folder(first) and (is_stacked or not others):
        sources = dict(zip(source_kinds(len(request.input)), request.input, strict=True))
        return PairedFolders({**sources, **partners}, reader)
    if is_stacked:
        return ListedImages([first], partners, further_files=others, reader=reader)
    return ListedImages(request.input, partners, reader=reader)


def _is_folder(path: Path) -> bool:
    """Return whether a path, which may not exist, is that of a folder."""
    return path.is_dir() or not path.suffix


def _check_stack(paths: Sequence[Path], names: Sequence[str]) -> None:
    """Raise DataError unless --input is a folder for each of the source folders `names`, or a file for each."""
    n_paths, kinds = len({without_dots(path) for path in paths}), {_is_folder(path) for path in paths}
    if n_paths != len(names) or n_paths < len(paths) or len(kinds) > 1:
        listed = ", ".join(map(str, paths))
        remedy = f"Name a folder, or a file, for each of {', '.join(names)}, in this order."
        raise DataError(f"--input: {listed} do not fit the {len(names)} sources of this generator. {remedy}")


def _check_features_can_be_encoded(loaded: LoadedGenerator, layout: Layout) -> None:
    """Raise DataError unless the file holds an encoder and the samples have targets to encode."""
    if not isinstance(loaded.generator, FeatureConditionedGenerator):
        raise DataError("--features given: this file has no encoder. Remove the option, or add --feature-maps DIR.")
    if not has_targets(layout):
        raise DataError(
            f"{loaded.file}: encodes its instance features from targets, and the input has none. Create clusters to "
            f"sample features from with python -m tools.cluster_features --checkpoint {loaded.file}."
        )


def has_targets(layout: Layout) -> bool:
    """Return whether samples have targets, by the first one, whose files are not read: they may be too large."""
    files = layout.provenance(0).files
    return not files.keys().isdisjoint({"pair", "target"}) if files else layout.read(0).target is not None


class ListedImages(Layout):
    """Samples of the files and folders that the user lists, named by their paths from the folder that contains all.

    partners: folders of other maps by kind, None without; there files have the same names with any suffix.
    further_files: images that are stacked behind that of the only path, which is a file.
    reader: of the maps.

    Raises:
        DataError: a file is missing or lacks a partner, a folder holds no image, or two files have the same name.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        partners: Mapping[str, Path | None],
        *,
        further_files: Sequence[Path] = (),
        reader: MapReader,
    ) -> None:
        self.n_classes = reader.n_classes
        self._reader = reader
        problems: list[str] = []
        self._maps = {"source": _listed(paths, problems)}
        for kind, path in zip(source_kinds(1 + len(further_files))[1:], further_files, strict=True):
            self._maps[kind] = dict.fromkeys(self._maps["source"], LocalFile.of(path))
        self._maps |= {kind: find_images(folder, problems) for kind, folder in partners.items() if folder}
        self.names = sorted(self._maps["source"])
        self.folders = [local_folder(path) for path in (*paths, *partners.values()) if path and path.is_dir()]
        if not problems:  # otherwise missing partners are a consequence, and would hide the cause
            problems += [
                f"{self._maps['source'][name]}: without a partner {name} in {partners[kind]}"
                for name in self.names
                for kind in self._maps
                if name not in self._maps[kind]
            ]
        if problems:
            raise DataError(*problems)

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return self._reader.provenance(self._files(index))

    def read(self, index: int) -> Sample:
        """Read sample `index` at full size; raise DataError with all problems of its files."""
        return self._reader.read(self.names[index], self._files(index))

    def _files(self, index: int) -> dict[str, Blob]:
        return {kind: files[self.names[index]] for kind, files in self._maps.items()}


def _listed(paths: Sequence[Path], problems: list[str]) -> dict[str, Blob]:
    """Return the images by name."""
    files: list[Path] = []
    for path in dict.fromkeys(paths):
        if path.is_dir():
            files += find_image_paths(path, problems).values()
        elif path.exists():
            files.append(path)
        else:
            problems.append(f"--input: {path}: no such file or folder")
    root = common_folder(paths)
    images: dict[str, Path] = {}
    for path in files:
        name = unicodedata.normalize("NFC", without_dots(path).relative_to(root).with_suffix("").as_posix())
        if without_dots(images.setdefault(name, path)) != without_dots(path):
            problems.append(f"{path} and {images[name]} have the same name: keep one of them")
    return {name: LocalFile.of(path) for name, path in images.items()}


def common_folder(paths: Sequence[Path]) -> Path:
    """Return the innermost folder that contains all paths; for a single folder, that folder."""
    if len(paths) == 1 and paths[0].is_dir():
        return paths[0].resolve()
    return Path(os.path.commonpath([without_dots(path).parent for path in paths]))


class JoinedPictures(DerivedLayout):
    """A layout whose sources are joined pictures: one half of each is the source, the other one the target.

    side: the half that is the source: A is the left one.
    """

    def __init__(self, layout: Layout, side: Side) -> None:
        super().__init__(layout)
        self.side = side

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        whole = self._layout.provenance(index)
        others = {kind: file for kind, file in whole.files.items() if kind != "source"}
        return Provenance(f"{whole.rule} half {self.side}", {"pair": whole.files["source"], **others})

    def read(self, index: int) -> Sample:
        """Read sample `index` at full size.

        Raises:
            DataError: its files cannot be used, or the width of the picture is odd.
        """
        sample, file = self._layout.read(index), self._layout.provenance(index).files["source"]
        split = partial(halves, file=file, a_is_first=self.side == "A", remedy=". Add --side none.")
        source, target = split(sample.source)
        instances = None if sample.instances is None else split(sample.instances)[0]
        return replace(sample, source=source, instances=instances, target=target)


def without_joined_pictures(layout: Layout, loaded: LoadedGenerator, request: Request) -> Layout:
    """Return the layout of --input with one half of each picture as source, and report that.

    --side A or B takes that half, and none takes every picture whole. Without it, runs of the layout side_by_side take
    a half, unless every picture has the proportions of a half.

    Raises:
        DataError: Sources are label maps or not 8-bit RGB, or have targets, or targets have another size.
    """
    side, config = request.side, loaded.config
    if side == "none" or (side is None and config.data.layout != "side_by_side"):
        return layout
    if config.generator.scale != 1 or loaded.data_facts.storage or layout.n_classes:
        raise DataError(f"--side {side}: only 8-bit RGB pictures of one size are joined. Remove --side.")
    chosen: Side = side or ("A" if config.data.direction == "AtoB" else "B")
    side_name = f"the {'left' if chosen == 'A' else 'right'} half"
    are_halves = [] if side else _have_proportions_of_a_half(layout, config)
    if are_halves and all(are_halves):
        logger.info("side         none: images of the proportions of one half; --side %s takes %s", chosen, side_name)
        return layout
    if request.targets:
        raise DataError("--targets: pictures of two sides bring their targets. Remove --targets, or add --side none.")
    remedy = "" if side else "; --side none takes each as a source"
    logger.info("side         %s, %s of each of %s%s", chosen, side_name, counted(len(layout), "image"), remedy)
    return JoinedPictures(layout, chosen)


def _have_proportions_of_a_half(layout: Layout, config: Config) -> list[bool]:
    """Return, for each picture that can be read, whether it has the proportions of the first training sample.

    The list is empty if the training sample and its size are not known.
    """
    found, data = list[bool](), config.data
    try:
        height, width = open_split(config, "train", needs_targets=False).read(0).source.shape[-2:]
    except (UserError, OSError):  # a data set that has moved
        if data.preprocess != "resize_and_crop":
            return found
        height, width = data.load_height, data.load_width
    trained = width / height
    for index in range(len(layout)):
        with suppress(DataError):  # reported when the sample's turn comes
            height, width = read_size(layout.provenance(index).files["source"])
            found.append(abs(width / height / trained - 1) <= SAME_PROPORTIONS)
    return found
