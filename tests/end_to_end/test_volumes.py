"""Journeys with volumes: slices train networks, and test.py writes volumes with the geometry of their sources."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
import torch
from torch import Tensor

from data.batch import Batch, DataError
from data.conditioning import ValueRange
from data.files.volume_file import read_volume
from data.validation_split import split_validation
from data.volume_cache import AXES
from data.volumes import Patients, SliceRule
from inference.predictor import Predictor
from inference.volumes import VolumeTranslator
from metrics.volume_metrics import summary, volume_figures
from tests.batches import CROPS
from tests.conftest import save_image, write_tiny_config
from tests.processes import run_two
from tests.reliability.command_line import CommandLine
from tests.runs import assert_resumes_exactly, built, checkpoint, run, translate, translation_script, untrained_run
from tests.volumes import CASES, EXTRAS, SERIES, noise, save_files, save_patients, save_volume
from training.report.plan import describe

SLICES = ["data.source_channels=1", "data.target_channels=1", "data.preprocess=crop", "data.crop_width=16"]
SLICES += ["data.crop_height=16", "data.instance_edges=false", "data.mask_folder={split}_mask"]
SLICES += ["data.target_range=[-1024,3071]"]
PAIRED = [*SLICES, "data.layout=paired_volumes", "data.neighbours=1", "data.source_range=volume"]
UNPAIRED = [*SLICES, "data.layout=unpaired_volumes", "loss.l1=0", "generator.n_blocks=2", "data.source_range=volume"]
METHODS = {"contrastive": ["contrastive.channels=8", "contrastive.n_patches=16"], "cycle": []}
LOW = -1024


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of all runs, with 3 patients for training and 2 for testing. Volumes are only to be read."""
    folder = tmp_path_factory.mktemp("volumes")
    path, root = write_tiny_config(folder), save_patients(folder / "heads", {"train": 3, "test": 2})
    shutil.copy(root / "test_mask" / "p004.nii.gz", root / "test_mask" / "p009.nii.gz")  # a mask without a patient
    places = f"data:\n  root: {root}\n  cache: {folder}/cache\n"
    path.write_text(path.read_text().replace("data:\n", places))
    return path


@pytest.fixture(scope="module")
def heads(config: Path) -> Path:
    return config.parent / "heads"


@pytest.fixture(scope="module")
def run_folder(config: Path) -> Path:
    """An untrained run."""
    return untrained_run(config, *PAIRED, "train.validation_share=0.4", "run.name=untrained")


@pytest.fixture
def of_slices(config: Path, tmp_path: Path) -> list[str]:
    """Arguments for a run whose sources keep their values."""
    run_folder = untrained_run(
        config, *SLICES, "data.layout=paired_volumes", "run.name=plain", "data.source_range=[0,1]"
    )
    return ["--checkpoint", str(run_folder), "--output", str(tmp_path / "out")]


@pytest.fixture
def arguments(run_folder: Path, tmp_path: Path) -> list[str]:
    return ["--checkpoint", str(run_folder), "--output", str(tmp_path / "out"), "--opt-level", "O0"]


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """A network that adds 0.5 to the slice itself. The list has its batches."""
    batches = list[Batch]()

    def translated(self: Predictor, batch: Batch) -> Tensor:
        batches.append(batch)
        middle = batch.source.shape[1] // 2
        return batch.source[:, middle : middle + 1] + 0.5

    monkeypatch.setattr(Predictor, "translate", translated)
    return batches


def report(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "metrics.json").read_text()))


def test_a_run_resumes_exactly(config: Path) -> None:
    settings = [*PAIRED, "data.axis=all", "train.validation_share=0.4", "log.images_every_steps=3"]
    assert_resumes_exactly(config, *settings, stop=2, end=4, before=1)


def test_the_plan_shows_geometry_and_warns_about_patients_in_two_splits(
    config: Path, heads: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(heads, tmp_path / "heads")
    for kind in ("A", "B", "mask"):
        shutil.copytree(root / f"train_{kind}", root / f"val_{kind}")
    training = built(config, *PAIRED, f"data.root={root}", "run.name=warned", "checkpoint.best=auto")
    plan = describe(training)
    assert training.best.figure == training.method.progress == "l1_weighted"  # voxels outside the mask do not count
    assert "geometry       16x20x8 voxels of 1x1x1 mm, stored as LPS" in plan
    assert "warning        train and val share patients. Keep each patient in one split (p001, p002, p003)" in plan


@pytest.mark.parametrize("method", METHODS)
def test_methods_without_pairs_train_and_translate(config: Path, tmp_path: Path, method: str) -> None:
    settings = [*UNPAIRED, f"method.name={method}", *METHODS[method], f"run.name={method}"]
    run(config, *settings, "train.max_steps=2")
    for network in checkpoint(config, 2, method)["networks"].values():
        assert all(bool(value.isfinite().all()) for value in network.values())
    directions = {"AtoB": "16-bit signed integer", "BtoA": "32-bit float"} if method == "cycle" else {"": "16-bit sig"}
    for direction, kind in directions.items():
        chosen = ["--direction", direction] * bool(direction)
        translate("--checkpoint", str(config.parent / "runs" / method), "--output", str(tmp_path / direction), *chosen)
        image = sitk.ReadImage(str(tmp_path / direction / "p004.nii.gz"))
        assert image.GetPixelIDTypeAsString().startswith(kind)
        assert len(np.unique(sitk.GetArrayFromImage(image))) > 100


def test_two_processes_train_like_one_and_share_patients(config: Path, tmp_path: Path) -> None:
    settings = [*PAIRED, "data.mask_folder=null", "train.max_steps=1", "optimizer.learning_rate=1e-8"]
    run(config, *settings, "train.batch_size=2", "run.name=one")
    command = ["test.py", "--checkpoint", str(config.parent / "runs" / "two"), "--output", str(tmp_path / "two")]
    training = ["train.py", "--config", str(config), *settings, "run.name=two", f"data.cache={tmp_path}/cache"]
    said = run_two(tmp_path / "said", training, command)
    assert said.count("translated   2 volumes") == 1
    translate(*command[1:3], "--output", str(tmp_path / "one"))
    for name in ("p004", "p005"):
        one, two = (read_volume(tmp_path / folder / f"{name}.nii.gz").array for folder in ("one", "two"))
        assert np.array_equal(one, two)
    assert report(tmp_path / "one")["patients"] == report(tmp_path / "two")["patients"]
    one, two = (checkpoint(config, 1, name)["optimizers"] for name in ("one", "two"))
    for group in one:
        for network, moments in one[group]["moments"].items():
            ours, theirs = (
                torch.cat([each["exp_avg"].flatten() for each in of_run[group]["moments"][network].values()])
                for of_run in (one, two)
            )
            assert len(ours) > len(moments)
            assert (ours - theirs).norm() < 1e-4 * ours.norm(), network


def test_figures_are_those_of_the_written_volumes(arguments: list[str], heads: Path, tmp_path: Path) -> None:
    translate(*arguments)
    figures = dict[str, Any]()
    for name in ("p004", "p005"):
        target, mask, fake = (
            read_volume(folder / f"{name}.nii.gz").array
            for folder in (heads / "test_B", heads / "test_mask", tmp_path / "out")
        )
        figures[name] = volume_figures(target, fake, mask, (LOW, 3071))
        assert (fake[mask == 0] == LOW).all()
        assert len(np.unique(fake[mask == 1])) > 100
    found = report(tmp_path / "out")
    assert found["patients"] == figures
    assert {name: found[name] for name in ("mean", "std")} == summary(figures)
    assert found["range"] == [LOW, 3071]
    kinds = ["difference", "source", "target", "translated"]
    pictures = sorted(path.relative_to(tmp_path / "out" / "gallery") for path in (tmp_path / "out").rglob("*.png"))
    assert pictures == [Path(kind, f"{name}.png") for kind in kinds for name in figures]


def translator_of(weights: Tensor, **fields: Any) -> VolumeTranslator:
    """A translator whose network returns a weighted sum of its channels."""

    def translate_batch(batch: Batch) -> Tensor:
        return (batch.source * weights.view(-1, 1, 1)).sum(dim=1, keepdim=True)

    predictor: Any = SimpleNamespace(translate=translate_batch, has_spread=False)
    rule = SliceRule(neighbours=len(weights) // 2)
    usual: dict[str, Any] = {"bounds": (-1e9, 1e9), "dtype": np.dtype(np.float32), "axes": AXES[:1], "batch_size": 2}
    usual["preprocessing"] = replace(CROPS, size_multiple=4, min_size=4)
    return VolumeTranslator(predictor=predictor, rule=rule, **usual | fields)


def test_translations_along_three_axes_are_averaged() -> None:
    case, average = CASES["average_axes"], EXTRAS["average"]
    volume, weights = case["volume"].numpy(), case["weights"].float()
    for axis in AXES:
        along = np.moveaxis(volume, AXES.index(axis), 0)
        fake, _ = translator_of(weights).translate([along])
        np.testing.assert_allclose(np.moveaxis(fake, 0, AXES.index(axis)), case["per_axis"][axis], atol=1e-6)
    fake, _ = translator_of(weights, axes=AXES).translate([volume])
    np.testing.assert_allclose(fake, case["expected"], atol=case["tolerance"])
    parts = [np.moveaxis(average[axis].numpy(), number, 0) for number, axis in enumerate(AXES)]
    planes = (torch.tensor(part[first : first + 2, None]) for part in parts for first in range(0, len(part), 2))
    given: Any = SimpleNamespace(translate=lambda _: next(planes), has_spread=False)
    translator = translator_of(weights, axes=AXES, preprocessing=replace(CROPS, size_multiple=1, min_size=1))
    fake, _ = replace(translator, predictor=given).translate([average["axial"].numpy()])
    np.testing.assert_allclose(fake, average["mean"], atol=1e-4)


def test_hounsfield_units_are_rounded_half_to_even_and_clipped() -> None:
    ranges, case, bounds = CASES["ranges"], EXTRAS["to_hu"], ValueRange.of([LOW, 3071])
    seen, exact = ValueRange.of(ranges["hu_range"]).to_float(ranges["hu"][:, None, None, None]), case["exact"]
    assert torch.allclose(seen.flatten(), ranges["hu_seen"], atol=1e-6)
    of_hu = bounds.from_float(seen, torch.float32)[:, 0].repeat(1, 2, 2).numpy()
    of_network = bounds.from_float(case["network"][:, None], torch.float32)[:, 0].numpy()
    one, to_int16 = torch.ones(1), {"bounds": (LOW, 3071), "dtype": np.dtype(np.int16)}
    fake, _ = translator_of(one, **to_int16).translate([of_hu])
    assert np.array_equal(fake[:, 0, 0], ranges["hu_written"])
    fake, _ = translator_of(one, **to_int16).translate([of_network])
    is_clear = ((exact % 1 - 0.5).abs() > 1e-3).numpy()
    assert is_clear.mean() > 0.5
    assert np.array_equal(fake[is_clear], case["int16"].numpy()[is_clear])
    fake, _ = translator_of(one, **to_int16).translate(
        [np.array([-5e3, -0.5, 0.5, 1.5, 9e3], np.float32).repeat(4).reshape(5, 2, 2)]
    )
    assert fake[:, 0, 0].tolist() == [LOW, 0, 0, 2, 3071]


OBLIQUE = (0.8, 0.6, 0, 0.6, -0.8, 0, 0, 0, -1)


def affine(path: Path) -> bytes:
    """The parts of a NIfTI header that hold its geometry."""
    header = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return header[76:108] + header[123:124] + header[252:328]


@pytest.mark.parametrize("suffix", [".nii.gz", ".nii", ".mha", ".mhd", ".nrrd", "series"])
@pytest.mark.usefixtures("halves")
def test_a_translation_has_the_geometry_and_format_of_its_source(
    of_slices: list[str], tmp_path: Path, suffix: str
) -> None:
    if suffix == "series":
        source, array = save_files(tmp_path / "1.2.840", SERIES["files"]), SERIES["array"].numpy()
    else:
        array = noise(5, (5, 6, 7))
        source = save_volume(tmp_path / f"p{suffix}", array, (0.7, 0.9, 2.1), (-80.3, 11.7, 1000.1), OBLIQUE)
    translate(*of_slices, "--input", str(source))
    suffix = {"series": ".nii.gz", ".nii": ".nii.gz", ".mhd": ".mha"}.get(suffix, suffix)
    written = tmp_path / "out" / f"{source.name.split('.n')[0].split('.m')[0]}{suffix}"
    image = sitk.ReadImage(str(written))
    expected = (array.astype(np.float32) + 0.5).clip(LOW, 3071).round()
    np.testing.assert_array_equal(sitk.GetArrayFromImage(image), expected)
    assert image.GetPixelID() == sitk.sitkInt16
    if source.suffix in (".gz", ".nii"):
        assert affine(written) == affine(source)
    elif source.is_file():
        given = sitk.ReadImage(str(source))
        for name in ("GetSpacing", "GetOrigin", "GetDirection"):
            assert getattr(image, name)() == getattr(given, name)()
    else:
        assert image.GetSpacing() == pytest.approx(SERIES["spacing"].tolist())
        assert image.GetOrigin() == pytest.approx(SERIES["origin"].tolist(), abs=1e-4)
        assert image.GetDirection() == pytest.approx(SERIES["direction"].ravel().tolist(), abs=1e-6)


def test_input_names_volumes_and_folders_of_patients(
    of_slices: list[str], heads: Path, tmp_path: Path, halves: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    def translated(*options: str) -> list[str]:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        translate(*of_slices, *options)
        files = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*"))
        return [path.as_posix() for path in files if path.suffix in (".gz", ".mha")]

    both = [str(heads / "test_A" / f"{name}.nii.gz") for name in ("p004", "p005")]
    named = ["p004.nii.gz", "p005.nii.gz"]
    for patient, source in zip(("x/a", "x/b"), both, strict=True):
        image = read_volume(Path(source))
        for kind, array in (("mr", image.array), ("ct", image.array + 1), ("body", image.array > 1000)):
            save_volume(tmp_path / "clinic" / patient / f"{kind}.mha", array.astype(np.float32))
    assert translated("--input", both[0]) == named[:1]
    assert translated("--input", *both) == translated("--input", str(heads / "test_A")) == named
    clinic = str(tmp_path / "clinic")
    folders = ["data.source_folder={patient}/mr", "data.target_folder={patient}/ct", "data.mask_folder={patient}/body"]
    of_clinic = translated("--input", clinic, "--targets", clinic, "--mask", clinic, *folders)
    assert of_clinic == ["x/a.mha", "x/b.mha"]
    assert len(halves) == 1 + 2 + 2 + 2  # a batch for each patient
    places = (tmp_path / "clinic/x/a/mr.mha", tmp_path / "clinic/x/a/body.mha", tmp_path / "out/x/a.mha")
    mr, body, fake = (read_volume(path).array for path in places)
    assert (fake[body == 0] == LOW).all()
    assert np.array_equal(fake[body > 0], (mr + 0.5).clip(LOW, 3071).round().astype(np.int16)[body > 0])
    figures = report(tmp_path / "out")["patients"]["x/a"]
    assert figures["n_voxels"] == (body > 0).sum()
    one = f"{clinic}/x/a"
    assert translated("--input", one, "--targets", one, "--mask", one, *folders) == ["a.mha"]
    assert report(tmp_path / "out")["patients"]["a"] == figures
    monkeypatch.chdir(one)
    (tmp_path / "clinic/x/a/body.mha").unlink()
    from_b = ["data.direction=BtoA", "data.source_folder={patient}/ct", "data.target_folder={patient}/mr"]
    assert translated("--input", ".", *from_b) == ["a.mha"]
    assert np.array_equal(read_volume(tmp_path / "out/a.mha").array, (mr + 0.5).clip(LOW, 3071).round())


def test_several_sources_are_named_in_order(config: Path, heads: Path, tmp_path: Path, halves: list[Batch]) -> None:
    stacked = ["data.source_folder=[{split}_A,{split}_B]", "data.target_folder={split}_B", "data.layout=paired_volumes"]
    stacked += [*SLICES, "data.source_channels=2", "data.source_range=[0,1,-1024,3071]", "run.name=stacked"]
    arguments = ["--checkpoint", str(untrained_run(config, *stacked)), "--output", str(tmp_path / "out"), "--input"]
    translate(*arguments, str(heads / "test_A"), str(heads / "test_B"))
    assert [path.name for path in sorted((tmp_path / "out").glob("*.gz"))] == ["p004.nii.gz", "p005.nii.gz"]
    for kind, channel in (("A", 0), ("B", 1)):
        volume = read_volume(heads / f"test_{kind}" / "p004.nii.gz").array.astype(np.float32)
        assert np.array_equal(halves[0].source[:, channel, : volume.shape[1], : volume.shape[2]], volume)
    with pytest.raises(DataError, match=r"^--input: needs 2 paths, in the order \{split\}_A, \{split\}_B\.$"):
        translate(*arguments, str(heads / "test_A"))


def test_existing_translations_are_kept_replaced_or_refused(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    foreign = save_volume(output / "p004.nii.gz", noise(0))
    with pytest.raises(DataError, match=r"would overwrite \S*p004\.nii\.gz, which test\.py did not write"):
        translate(*arguments)
    translate(*arguments, "--existing", "replace")
    expected, metrics = [read_volume(output / f"{name}.nii.gz").array for name in ("p004", "p005")], report(output)
    kept = (output / "p005.nii.gz").stat().st_mtime_ns
    for damaged in (b"", None):
        if damaged is None:
            save_volume(foreign, noise(0))
        else:
            foreign.write_bytes(damaged)
        capfd.readouterr()
        translate(*arguments, "--existing", "keep")
        said = capfd.readouterr().out
        assert "kept         1 existing volume\ntranslated   1 volume: " in said
        assert np.array_equal(read_volume(foreign).array, expected[0])
        assert (output / "p005.nii.gz").stat().st_mtime_ns == kept
        again = report(output)
        assert (again["patients"], again["origin"]["n_kept"]) == (metrics["patients"], 1)
    with pytest.raises(DataError, match=r"made with other settings \(split\)"):
        translate(*arguments, "--existing", "keep", "--split", "train")


def test_a_bad_patient_is_skipped_in_one_line(
    arguments: list[str], heads: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    sources = Path(shutil.copytree(heads / "test_A", tmp_path / "A"))
    damaged = sources / "p004.nii.gz"
    damaged.write_bytes(damaged.read_bytes()[:-30])
    (line,) = command_line.refusal(translation_script().main, *arguments, "--input", str(sources))
    assert line == f"error: {damaged}: is damaged or incomplete. Copy it again."
    assert [path.name for path in (tmp_path / "out").glob("*.nii.gz")] == ["p005.nii.gz"]


def test_patients_kept_for_validation_are_a_split(arguments: list[str], tmp_path: Path) -> None:
    translate(*arguments, "--split", "held_back")
    found = report(tmp_path / "out")
    _, held_back = split_validation(Patients({name: {} for name in ("p001", "p002", "p003")}, []), 0.4)
    assert list(found["patients"]) == held_back.names
    assert 0 < len(found["patients"]) < 3
    assert found["measured_on"] == "training samples kept for validation"


def test_options_that_cannot_be_used_are_refused(
    arguments: list[str], heads: Path, tmp_path: Path, config: Path, command_line: CommandLine
) -> None:
    save_image(tmp_path / "pairs" / "train" / "x.png", np.zeros((32, 64, 3), np.uint8))
    pictures = ["data.layout=side_by_side", f"data.root={tmp_path}/pairs", "data.instance_edges=false"]
    of_images = ["--checkpoint", str(untrained_run(config, *pictures, "run.name=images")), *arguments[2:]]
    volume, picture = heads / "test_A" / "p004.nii.gz", tmp_path / "pairs" / "train" / "x.png"
    for command, options, message in (
        (arguments, "--tile 64 --nodata 0", "--nodata, --tile: cannot be used with volumes. Remove the option."),
        (arguments, "--size trained", "--size: cannot be used with volumes"),
        (arguments, "--window 5 5", "--window: LOW must be below HIGH"),
        (arguments, f"--input {picture}", f"--input: {picture}: holds no volume. Name a folder of .nii, "),
        (arguments, f"--input {heads}/none", f"--input: {heads}/none: no such file or folder"),
        (arguments, f"--input {volume} {volume}", "--input: two volumes have the same name."),
        (arguments, "--split x", "has no split 'x'. Choose --split train or --split test or --split held_back, or"),
        (of_images, f"--input {volume}", f"--input: {volume} is a volume. Choose a generator of data.layout=paired_"),
        (of_images, "--average-axes --window 0 1", "--average-axes, --window: only generators of volumes have this"),
    ):
        (line,) = command_line.refusal(translation_script().main, *command, *options.split())
        assert message in line
    translate(*arguments, "--noise", "--input", str(volume))
    assert (tmp_path / "out" / "p004.nii.gz").exists()
