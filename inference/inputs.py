"""Find the images to translate: a split of the data set, a folder, or a list of files and folders."""

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from configs.data_facts import allowing_missing
from configs.schema import ROOT
from configs.splits import check_has_split, has_split, open_split, translated_split
from data.batch import DataError
from data.files.image_files import find_image_paths, find_images
from data.folder import Blob, LocalFile, local_folder
from data.layout import Layout
from data.map_reader import MapReader, source_kinds
from data.paired_folders import PairedFolders
from inference.load import LoadedGenerator
from inference.request import Request
from models.instance_features import FeatureConditionedGenerator
from utils.files import without_dots


def build_input(loaded: LoadedGenerator, request: Request) -> Layout:
    """Return the samples to translate, from --input or a split. Raise DataError if files or options are missing."""
    config, conditioning = loaded.reading_config, loaded.conditioning
    if request.input:
        _check_maps_are_named(request, loaded)
        layout = _named_input(request, loaded)
    elif loaded.step is None and config.data.root == ROOT:
        remedy = "Name a folder of sources with --input DIR, or a data set with data.root=DIR"
        raise DataError(f"{loaded.file}: names no data set. {remedy}.")
    else:
        split = request.split or translated_split(config)
        others = [f"--direction {each}" for each in loaded.directions if each != loaded.direction]
        if not (others and has_split(replace(config, data=config.data.reversed), split)):
            others = []
        check_has_split(config, split, other_choice=" or ".join([*others, "--input FOLDER"]))
        layout = open_split(config, split, needs_targets=False, allows_missing=True)
    if loaded.clusters is None and conditioning.features == "encoded":
        if not isinstance(loaded.generator, FeatureConditionedGenerator):
            raise DataError(f"--features given: {loaded.file} has no encoder. Omit this, or add --feature-maps DIR.")
        if not has_targets(layout):
            raise DataError(
                f"{loaded.file}: needs targets to compute instance features, but the input has none. Create clusters "
                f"with python -m tools.cluster_features --checkpoint {loaded.file}."
            )
    return layout


def _check_maps_are_named(request: Request, loaded: LoadedGenerator) -> None:
    """Raise DataError if --instances, --clusters or --feature-maps is needed but missing."""
    conditioning = loaded.conditioning
    if loaded.data_facts.reads_instances and request.instances is None:
        can_take_labels = loaded.clusters is not None and not conditioning.instance_edges
        other = ", or set features.regions=labels" if can_take_labels else ""
        other += ", or set data.instances=connected to make them from label maps" if conditioning.n_classes else ""
        raise DataError(f"--input: this generator also needs instance maps. Add --instances DIR{other}.")
    if conditioning.features == "precomputed" and request.feature_maps is None:
        raise DataError(
            "--input: this generator also needs instance features. Add --clusters FILE or --feature-maps DIR."
        )


def _named_input(request: Request, loaded: LoadedGenerator) -> Layout:
    """Return the samples of --input. See `PairedFolders` for how folders form pairs."""
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
    """Return whether a path names a folder. A missing path counts as a folder if it has no suffix."""
    return path.is_dir() or not path.suffix


def _check_stack(paths: Sequence[Path], names: Sequence[str]) -> None:
    """Raise DataError unless --input has one folder, or one file, for each source folder in `names`."""
    n_paths, kinds = len({without_dots(path) for path in paths}), {_is_folder(path) for path in paths}
    if n_paths != len(names) or n_paths < len(paths) or len(kinds) > 1:
        listed = ", ".join(map(str, paths))
        remedy = f"Name a folder, or a file, for each of {', '.join(names)}, in this order."
        raise DataError(f"--input: {listed} do not fit the {len(names)} sources of this generator. {remedy}")


def has_targets(layout: Layout) -> bool:
    """Return whether samples have targets. Image files are not read, because they can be very large."""
    files = layout.provenance(0).files
    return not files.keys().isdisjoint({"pair", "target"}) if files else layout.read(0).target is not None


class ListedImages(PairedFolders):
    """Samples from a list of files and folders. The name of a sample is its path below the common parent folder.

    partners: Folder of each map except the source, or None. Files are named like sources, with any suffix.
    further_files: Images whose channels are appended to the source. In this case, `paths` must be a single file.
    reader: Reader of the maps.

    Raises:
        DataError: A source or another map is missing, a folder holds no image, or two files have the same name.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        partners: Mapping[str, Path | None],
        *,
        further_files: Sequence[Path] = (),
        reader: MapReader,
    ) -> None:
        self.n_classes, self._reader = reader.n_classes, reader
        problems: list[str] = []
        maps = {"source": _listed(paths, problems)}
        for kind, path in zip(source_kinds(1 + len(further_files))[1:], further_files, strict=True):
            maps[kind] = dict.fromkeys(maps["source"], LocalFile.of(path))
        maps |= {kind: find_images(folder, problems) for kind, folder in partners.items() if folder}
        self.names = sorted(maps["source"])
        self.folders = [local_folder(path) for path in (*paths, *partners.values()) if path and path.is_dir()]
        if not problems:  # other problems can be the reason why maps are missing: report them first
            problems += [
                f"{maps['source'][name]}: has no partner {name} in {partners[kind]}"
                for name in self.names
                for kind in maps
                if name not in maps[kind]
            ]
        if problems:
            raise DataError(*problems)
        self._maps = {kind: [files[name] for name in self.names] for kind, files in maps.items()}


def _listed(paths: Sequence[Path], problems: list[str]) -> dict[str, Blob]:
    """Return the image files by sample name. Append messages about missing files and equal names to `problems`."""
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
    """Return the innermost folder that contains all paths. For a single folder, return the folder itself."""
    if len(paths) == 1 and paths[0].is_dir():
        return paths[0].resolve()
    return Path(os.path.commonpath([without_dots(path).parent for path in paths]))
