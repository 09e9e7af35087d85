"""Instance features from end to end: trained, clustered, precomputed, exported, drawn."""

from pathlib import Path

import numpy as np
import pytest
import torch

import train
from data.batch import Batch, DataError
from data.conditioning import images_to_float, images_to_uint8
from data.files.image_files import read_ids, read_rgb
from inference.load import load_generator, load_network
from models.feature_clusters import FILE_NAME, FeatureClusters
from models.originals.weights import import_original
from tests.runs import assert_equal, checkpoint, run, translate, without_config
from tools import cluster_features, precompute_features
from tools.export import __main__ as export
from tools.features.encoded_split import EncodedSample
from utils.checkpoint import CheckpointError, read_weights_file, write_weights_file
from utils.checkpoint_folder import checkpoint_path
from utils.errors import ConfigError

FEATURES = ["features.n_channels=3", "features.n_downsamplings=2", "features.base_channels=2", "train.max_steps=2"]
FOLDERS = ["data.layout=paired_folders", "data.n_classes=5", "data.instance_edges=true"]


@pytest.fixture
def run_folder(tiny_config: Path) -> Path:
    run(tiny_config, *FEATURES)
    return tiny_config.parent / "runs" / "tiny"


@pytest.fixture
def folder_run(tiny_config: Path, label_data_set: Path) -> Path:
    """A run on pix2pixHD's folders."""
    run(tiny_config, *FEATURES, *FOLDERS, f"data.root={label_data_set}", "run.name=folders")
    return tiny_config.parent / "runs" / "folders"


def pictures(folder: Path) -> dict[str, torch.Tensor]:
    return {path.stem: read_rgb(path) for path in folder.glob("*.png") if path.stem != "contact_sheet"}


def test_the_encoder_is_trained_with_the_generator(tiny_config: Path) -> None:
    run(tiny_config, *FEATURES, "checkpoint.every_steps=1")
    first, second = (checkpoint(tiny_config, step)["networks"]["generator"] for step in (1, 2))
    encoder = [name for name in first if name.startswith("encoder.")]
    assert len(encoder) > 4
    assert all(not torch.equal(first[name], second[name]) for name in encoder)


def test_features_are_drawn_by_seed_whatever_the_batch(run_folder: Path, tmp_path: Path) -> None:
    cluster_features.main(["--checkpoint", str(run_folder), "--clusters", "3"])
    assert (run_folder / FILE_NAME).is_file()

    def drawn(name: str, *arguments: str) -> dict[str, torch.Tensor]:
        output = tmp_path / name
        translate("--checkpoint", str(run_folder), "--output", str(output), "--opt-level", "O0", *arguments)
        return pictures(output)

    first = drawn("first")
    assert_equal(first, drawn("again", "--batch-size", "3"))
    other = drawn("other", "--seed", "1")
    assert any(not torch.equal(first[name], other[name]) for name in first)
    for level in ("O2", "O3"):
        drawn(level, "--opt-level", level)
        drawn(f"given{level}", "--opt-level", level, "--features", "given")


def test_given_features_are_those_of_the_targets(run_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "given"
    translate("--checkpoint", str(run_folder), "--output", str(output), "--opt-level", "O0", "--features", "given")
    from configs import build

    trained = load_generator(checkpoint_path(run_folder, 2))
    layout = build.build_layout(trained.config, "test", needs_targets=True)
    batch = Batch.of([layout.read(0)])
    source = build.build_conditioning(trained.config)(batch)
    assert batch.target is not None
    with torch.no_grad():
        fake = trained.generator.eval()(source, images_to_float(batch.target), batch.instances)
    assert torch.equal(pictures(output)[layout.names[0]], images_to_uint8(fake)[0])


def test_precomputed_maps_train_and_resume_and_translate(
    tiny_config: Path, label_data_set: Path, folder_run: Path, tmp_path: Path
) -> None:
    precompute_features.main(["--checkpoint", str(folder_run)])
    precompute_features.main(["--checkpoint", str(folder_run), "--split", "test"])
    maps = pictures(label_data_set / "train_feat")
    assert maps.keys() == {"a", "b", "c"}
    instances = read_ids(label_data_set / "train_inst" / "a.png")
    trained_encoder = load_network(checkpoint_path(folder_run, 2), "encoder")
    photo = images_to_float(read_rgb(label_data_set / "train_img" / "a.jpg")[None])
    with torch.no_grad():
        features = trained_encoder.eval()(photo, instances[None])
    assert torch.equal(maps["a"], images_to_uint8(features)[0])
    for instance in instances.unique():
        assert maps["a"][:, instances[0] == instance].unique(dim=1).shape[1] == 1

    settings = [*FOLDERS, f"data.root={label_data_set}", "features.n_channels=3", "features.origin=precomputed"]
    run(tiny_config, *settings, "run.name=whole", "train.max_steps=4")
    run(tiny_config, *settings, "run.name=pre", "train.max_steps=2")
    run(tiny_config, *settings, "run.name=pre", "train.max_steps=4")
    whole, resumed = checkpoint(tiny_config, 4, "whole"), checkpoint(tiny_config, 4, "pre")
    assert_equal(without_config(whole), without_config(resumed))

    trained = str(tiny_config.parent / "runs" / "pre")
    translate("--checkpoint", trained, "--output", str(tmp_path / "split"))
    given = ["--input", str(label_data_set / "test_label"), "--instances", str(label_data_set / "test_inst")]
    maps_given = [*given, "--feature-maps", str(label_data_set / "test_feat")]
    translate("--checkpoint", trained, "--output", str(tmp_path / "maps"), *maps_given)
    assert_equal(pictures(tmp_path / "split"), pictures(tmp_path / "maps"))
    with pytest.raises(DataError, match="--clusters FILE or --feature-maps DIR"):
        translate("--checkpoint", trained, "--output", str(tmp_path / "none"), *given)
    cluster_features.main(["--checkpoint", str(folder_run), "--output", str(tmp_path / "clusters.pt")])
    drawn = [*given, "--clusters", str(tmp_path / "clusters.pt")]
    translate("--checkpoint", trained, "--output", str(tmp_path / "drawn"), *drawn)
    assert pictures(tmp_path / "drawn").keys() == {"d"}


def test_maps_are_not_written_over_others(folder_run: Path, label_data_set: Path) -> None:
    (label_data_set / "train_feat").mkdir()
    (label_data_set / "train_feat" / "notes.txt").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        precompute_features.main(["--checkpoint", str(folder_run)])


def test_the_originals_files_cluster_and_translate_as_the_run_they_come_from(
    tiny_config: Path, label_data_set: Path, folder_run: Path, tmp_path: Path
) -> None:
    export.main(["--checkpoint", str(folder_run), "--format", "original"])
    generator, encoder = folder_run / "latest_net_G.pth", folder_run / "latest_net_E.pth"
    cluster_features.main(["--checkpoint", str(folder_run), "--output", str(tmp_path / "ours.pt")])
    config = ["--config", str(tiny_config), *FOLDERS, f"data.root={label_data_set}"]
    cluster_features.main(["--checkpoint", str(encoder), "--output", str(tmp_path / "theirs.pt"), *config])
    with pytest.raises(ConfigError, match="names no data set; add --config FILE"):
        cluster_features.main(["--checkpoint", str(encoder)])
    ours, theirs = (read_weights_file(tmp_path / f"{side}.pt") for side in ("ours", "theirs"))
    assert_equal(ours["feature_clusters"], theirs["feature_clusters"])
    assert (ours["step"], theirs["step"]) == (2, None)

    arguments = ["--input", str(label_data_set / "test_label"), "--instances", str(label_data_set / "test_inst")]
    arguments += ["--clusters", str(tmp_path / "ours.pt"), "--opt-level", "O0", "--output"]
    translate("--checkpoint", str(folder_run), *arguments, str(tmp_path / "ours"))
    translate("--checkpoint", str(generator), *arguments, str(tmp_path / "theirs"))
    assert_equal(pictures(tmp_path / "ours"), pictures(tmp_path / "theirs"))
    with pytest.raises(DataError, match="this file has no encoder"):
        translate("--checkpoint", str(generator), "--features", "given", *arguments, str(tmp_path / "given"))


def test_a_run_starts_from_the_originals_generator_and_encoder(
    tiny_config: Path, folder_run: Path, label_data_set: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    export.main(["--checkpoint", str(folder_run), "--format", "original"])
    settings = [f"init.generator={folder_run / 'latest_net_G.pth'}", f"init.encoder={folder_run / 'latest_net_E.pth'}"]
    settings += [*FEATURES, *FOLDERS, f"data.root={label_data_set}", "optimizer.learning_rate=0", "train.max_steps=1"]
    run(tiny_config, *settings, "run.name=started")
    printed = capfd.readouterr().out
    assert "init.encoder" in printed
    assert "new: none" in printed.partition("init.encoder")[2]
    weights = checkpoint(tiny_config, 1, "started")["networks"]["generator"]
    assert_equal(weights, read_weights_file(checkpoint_path(folder_run, 2))["networks"]["generator"])


def test_without_targets_or_clusters_the_remedy_is_named(
    folder_run: Path, label_data_set: Path, tmp_path: Path
) -> None:
    arguments = ["--checkpoint", str(folder_run), "--output", str(tmp_path / "out")]
    arguments += ["--input", str(label_data_set / "test_label"), "--instances", str(label_data_set / "test_inst")]
    with pytest.raises(DataError, match=r"python -m tools\.cluster_features --checkpoint"):
        translate(*arguments)
    with pytest.raises(CheckpointError, match=r"no such file\. Create it with python -m tools\.cluster_features"):
        translate(*arguments, "--features", "sampled")
    write_weights_file(tmp_path / "two.pt", FeatureClusters({1: torch.zeros(1, 2)}).state_dict())
    with pytest.raises(CheckpointError, match="has 2 features"):
        translate(*arguments, "--clusters", str(tmp_path / "two.pt"))


def test_the_encoder_of_a_run_is_taken_alone(tiny_config: Path, run_folder: Path) -> None:
    run(tiny_config, *FEATURES, "run.name=other", "run.seed=5")
    other = run_folder.with_name("other")
    settings = [*FEATURES, f"init.generator={run_folder}", f"init.encoder={other}", "optimizer.learning_rate=0"]
    run(tiny_config, *settings, "train.max_steps=1", "run.name=both")
    weights = checkpoint(tiny_config, 1, "both")["networks"]["generator"]
    for name, value in weights.items():
        source = "other" if name.startswith("encoder.") else "tiny"
        assert torch.equal(value, checkpoint(tiny_config, 2, source)["networks"]["generator"][name]), name
    run(tiny_config, "run.name=plain")
    with pytest.raises(CheckpointError, match="its generator has no encoder"):
        run(tiny_config, *FEATURES, f"init.encoder={run_folder.with_name('plain')}", "run.name=new")


def test_clusters_take_the_place_of_clusters_alone(run_folder: Path, tmp_path: Path) -> None:
    saved = checkpoint_path(run_folder, 2)
    for output in (saved, tmp_path):
        with pytest.raises(FileExistsError, match="holds no clusters"):
            cluster_features.main(["--checkpoint", str(run_folder), "--output", str(output)])
    assert read_weights_file(saved)["step"] == 2
    for _ in range(2):
        cluster_features.main(["--checkpoint", str(run_folder)])


def test_the_origin_of_features_and_options_without_effect_are_reported(
    tiny_config: Path, run_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def printed_by(*arguments: str) -> str:
        capfd.readouterr()
        translate("--checkpoint", str(run_folder), "--output", str(tmp_path / "out"), *arguments)
        return capfd.readouterr().out

    assert "features     of the targets" in printed_by()
    cluster_features.main(["--checkpoint", str(run_folder)])
    output = printed_by()
    assert "features     drawn from clusters by seed 0" in output
    assert "made at step" not in output
    run(tiny_config, *FEATURES, "train.max_steps=3")
    assert "made at step 2" in printed_by()
    output = printed_by("--features", "given", "--clusters", str(run_folder / FILE_NAME), "--noise")
    assert "without effect  --clusters, --noise" in output


def test_other_numbers_of_features_and_halvings_than_usual(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    config = [*FOLDERS, f"data.root={label_data_set}"]
    settings = [*FEATURES, "features.n_channels=5", "features.n_downsamplings=4", *config]
    run(tiny_config, *settings)
    run_folder = tiny_config.parent / "runs" / "tiny"
    export.main(["--checkpoint", str(run_folder), "--format", "original"])
    encoder = ["--checkpoint", str(run_folder / "latest_net_E.pth"), "--config", str(tiny_config), *config]
    cluster_features.main([*encoder, "--output", str(tmp_path / "five.pt")])
    arguments = ["--input", str(label_data_set / "test_label"), "--instances", str(label_data_set / "test_inst")]
    generator = ["--checkpoint", str(run_folder / "latest_net_G.pth"), "--clusters", str(tmp_path / "five.pt")]
    translate(*generator, *arguments, "--output", str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="has 5 features, an image holds 3"):
        precompute_features.main(encoder)


def test_sources_that_are_images_have_one_class(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    settings = [*FEATURES, "data.layout=paired_folders", "data.n_classes=0", "data.source_folder={split}_img"]
    settings += ["data.target_folder={split}_img", f"data.root={label_data_set}", "data.instance_edges=false"]
    run(tiny_config, *settings)
    run_folder = tiny_config.parent / "runs" / "tiny"
    cluster_features.main(["--checkpoint", str(run_folder)])
    assert list(read_weights_file(run_folder / FILE_NAME)["feature_clusters"]) == [0]
    translate("--checkpoint", str(run_folder), "--output", str(tmp_path / "out"))


def test_the_clusters_of_pix2pixhd_are_not_read(run_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "features_clustered_010.npy"
    file.write_bytes(b"\x93NUMPY")
    with pytest.raises(CheckpointError, match=r"Create clusters with python -m tools\.cluster_features"):
        translate("--checkpoint", str(run_folder), "--clusters", str(file), "--output", str(tmp_path / "out"))


def test_damaged_features_are_not_clustered() -> None:
    with pytest.raises(ConfigError, match="not finite"):
        cluster_features.cluster([encoded(float("nan"), 1, 300)], n_clusters=2)


def test_a_run_without_features_refuses_clusters(tiny_config: Path, tmp_path: Path) -> None:
    train.main(["--config", str(tiny_config)])
    run_folder = str(tiny_config.parent / "runs" / "tiny")
    with pytest.raises(ConfigError, match="takes no instance features"):
        translate("--checkpoint", run_folder, "--features", "given", "--output", str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="has no feature encoder"):
        cluster_features.main(["--checkpoint", run_folder])


def encoded(value: float, class_id: int, area: int) -> EncodedSample:
    """An image of 32x32 whose first rows are one instance of `area` pixels; the rest is of class 9."""
    instances = (torch.arange(1024) >= area).long().view(1, 1, 32, 32)
    features = torch.where(instances.bool(), torch.zeros(1, 2, 32, 32), torch.full((1, 2, 32, 32), value))
    return EncodedSample("x", features, torch.where(instances.bool(), 9, class_id), instances)


def test_clusters_are_found_and_small_instances_left_out() -> None:
    rng = np.random.default_rng(0)
    samples = [encoded(center + 0.01 * rng.standard_normal(), 1, 300) for center in (-0.5, 0.5) for _ in range(5)]
    samples += [encoded(0.9, 2, 16), encoded(0.7, 3, 17)]  # 1/64 of the image is 16 pixels
    clusters = cluster_features.cluster(samples, n_clusters=2)
    assert clusters.centers.keys() == {1, 3, 9}
    assert clusters.centers[1][:, 0].sort().values.tolist() == pytest.approx([-0.5, 0.5], abs=0.02)
    assert clusters.centers[3].shape == (1, 2)
    with pytest.raises(ConfigError, match="nothing to cluster"):
        cluster_features.cluster([], n_clusters=2)


def test_exported_files_are_the_originals(folder_run: Path) -> None:
    export.main(["--checkpoint", str(folder_run), "--format", "original"])
    weights = {name: read_weights_file(folder_run / f"latest_net_{name}.pth") for name in "GE"}
    assert weights["G"]["model.1.weight"].shape[1] == 5 + 1 + 3
    assert import_original(weights["E"]).scheme == "encoder"
