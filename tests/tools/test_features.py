"""Instance features from end to end: trained, clustered, precomputed, exported, drawn."""

from pathlib import Path

import numpy as np
import pytest
import torch

from configs import build
from configs.splits import open_split
from data.batch import Batch, DataError
from data.conditioning import images_to_float, images_to_uint8
from data.files.image_files import read_ids, read_rgb
from inference.load import load_generator, load_network
from models.instance_features import FILE_NAME, FeatureClusters
from models.originals.weights import import_original
from tests.runs import assert_equal, run, translate, untrained_run
from tools import cluster_features, precompute_features
from tools.export import __main__ as export
from tools.precompute_features import EncodedSample
from utils.checkpoint import CheckpointError, read_weights_file, write_weights_file
from utils.checkpoint_folder import checkpoint_path
from utils.errors import ConfigError

FEATURES = ["features.n_channels=3", "features.n_downsamplings=2", "features.base_channels=2", "train.max_steps=2"]
FOLDERS = ["data.layout=paired_folders", "data.n_classes=5", "data.instance_edges=true"]


@pytest.fixture
def run_folder(tiny_config: Path) -> Path:
    return untrained_run(tiny_config, *FEATURES)


@pytest.fixture
def folders(label_data_set: Path) -> list[str]:
    return [*FOLDERS, f"data.root={label_data_set}"]


@pytest.fixture
def folder_run(tiny_config: Path, folders: list[str]) -> Path:
    return untrained_run(tiny_config, *FEATURES, *folders, "run.name=folders")


@pytest.fixture
def given(label_data_set: Path) -> list[str]:
    """Label and instance maps, without targets."""
    return ["--input", str(label_data_set / "test_label"), "--instances", str(label_data_set / "test_inst")]


def cluster(run_or_file: Path, *arguments: str) -> None:
    cluster_features.main(["--checkpoint", str(run_or_file), *arguments])


def translated(run_or_file: Path, output: Path, *arguments: str) -> dict[str, torch.Tensor]:
    translate("--checkpoint", str(run_or_file), "--output", str(output), "--opt-level", "O0", *arguments)
    return pictures(output)


def pictures(folder: Path) -> dict[str, torch.Tensor]:
    return {path.stem: read_rgb(path) for path in folder.glob("*.png") if path.stem != "contact_sheet"}


def test_features_are_drawn_by_seed_whatever_the_batch(run_folder: Path, tmp_path: Path) -> None:
    cluster(run_folder, "--clusters", "3")
    first = translated(run_folder, tmp_path / "first")
    assert_equal(first, translated(run_folder, tmp_path / "again", "--batch-size", "3"))
    other = translated(run_folder, tmp_path / "other", "--seed", "1")
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_given_features_are_those_of_the_targets(run_folder: Path, tmp_path: Path) -> None:
    made = translated(run_folder, tmp_path / "given", "--features", "given")
    trained = load_generator(checkpoint_path(run_folder, 1))
    layout = open_split(trained.config, "test", needs_targets=True)
    batch = Batch.of([layout.read(0)])
    source = build.data_facts(trained.config).conditioning(batch)
    with torch.no_grad():
        fake = trained.generator.eval()(source, images_to_float(batch.maps["target"]), batch.instances)
    assert torch.equal(made[layout.names[0]], images_to_uint8(fake)[0])


def test_precomputed_maps_train_and_translate(
    tiny_config: Path, label_data_set: Path, folders: list[str], folder_run: Path, given: list[str], tmp_path: Path
) -> None:
    precompute_features.main(["--checkpoint", str(folder_run)])
    precompute_features.main(["--checkpoint", str(folder_run), "--split", "test"])
    with pytest.raises(ConfigError, match="is not empty"):
        precompute_features.main(["--checkpoint", str(folder_run)])
    maps = pictures(label_data_set / "train_feat")
    assert maps.keys() == {"a", "b", "c"}
    instances = read_ids(label_data_set / "train_inst" / "a.png")
    photo = images_to_float(read_rgb(label_data_set / "train_img" / "a.jpg")[None])
    with torch.no_grad():
        features = load_network(checkpoint_path(folder_run, 1), "encoder").eval()(photo, instances[None])
    assert torch.equal(maps["a"], images_to_uint8(features)[0])
    for instance in instances.unique():
        assert maps["a"][:, instances[0] == instance].unique(dim=1).shape[1] == 1

    settings = [*folders, "features.n_channels=3", "features.origin=precomputed"]
    run(tiny_config, *settings, "run.name=pre", "train.max_steps=1")
    trained = tiny_config.parent / "runs" / "pre"
    of_maps = translated(trained, tmp_path / "maps", *given, "--feature-maps", str(label_data_set / "test_feat"))
    assert_equal(translated(trained, tmp_path / "split"), of_maps)
    with pytest.raises(DataError, match="--clusters FILE or --feature-maps DIR"):
        translated(trained, tmp_path / "none", *given)
    cluster(folder_run, "--output", str(tmp_path / "clusters.pt"))
    drawn = translated(trained, tmp_path / "drawn", *given, "--clusters", str(tmp_path / "clusters.pt"))
    assert drawn.keys() == {"d"}


def test_the_originals_files_cluster_and_translate_as_the_run_they_come_from(
    tiny_config: Path, folders: list[str], folder_run: Path, given: list[str], tmp_path: Path
) -> None:
    export.main(["--checkpoint", str(folder_run), "--format", "original"])
    generator, encoder = folder_run / "latest_net_G.pth", folder_run / "latest_net_E.pth"
    assert read_weights_file(generator)["model.1.weight"].shape[1] == 5 + 1 + 3
    assert import_original(read_weights_file(encoder)).scheme == "encoder"
    cluster(folder_run, "--output", str(tmp_path / "ours.pt"))
    cluster(encoder, "--output", str(tmp_path / "theirs.pt"), "--config", str(tiny_config), *folders)
    with pytest.raises(ConfigError, match=r"records no data set\. Add --config FILE"):
        cluster(encoder)
    ours, theirs = (read_weights_file(tmp_path / f"{side}.pt") for side in ("ours", "theirs"))
    assert_equal(ours["feature_clusters"], theirs["feature_clusters"])
    assert (ours["step"], theirs["step"]) == (1, None)

    given += ["--clusters", str(tmp_path / "ours.pt")]
    assert_equal(translated(folder_run, tmp_path / "ours", *given), translated(generator, tmp_path / "theirs", *given))
    with pytest.raises(DataError, match=r"--features given: .* has no encoder"):
        translated(generator, tmp_path / "given", "--features", "given", *given)


def test_without_targets_or_clusters_the_remedy_is_named(folder_run: Path, given: list[str], tmp_path: Path) -> None:
    write_weights_file(tmp_path / "two.pt", FeatureClusters({1: torch.zeros(1, 2)}).state_dict())
    (tmp_path / "features_clustered_010.npy").write_bytes(b"\x93NUMPY")  # pix2pixHD's clusters
    for arguments, error, message in (
        ([], DataError, r"python -m tools\.cluster_features --checkpoint"),
        (["--clusters", str(tmp_path / "two.pt")], CheckpointError, "has 2 features"),
        (["--clusters", str(tmp_path / "features_clustered_010.npy")], CheckpointError, "Create clusters with python"),
    ):
        with pytest.raises(error, match=message):
            translated(folder_run, tmp_path / "out", *given, *arguments)


def test_clusters_replace_only_a_file_of_their_name(run_folder: Path, tmp_path: Path) -> None:
    saved = checkpoint_path(run_folder, 1)
    for output in (saved, tmp_path):
        with pytest.raises(ConfigError, match=f"{output}: already exists"):
            cluster(run_folder, "--output", str(output))
    assert read_weights_file(saved)["step"] == 1
    write_weights_file(run_folder / FILE_NAME, FeatureClusters({1: torch.zeros(1, 2)}).state_dict())
    cluster(run_folder)


def test_maps_of_more_features_than_an_image_holds_are_refused(tiny_config: Path, folders: list[str]) -> None:
    made = untrained_run(tiny_config, *FEATURES, "features.n_channels=5", "features.n_downsamplings=4", *folders)
    export.main(["--checkpoint", str(made), "--format", "original"])
    with pytest.raises(ConfigError, match=r"has 5 features, .* features\.n_channels=3"):
        precompute_features.main(
            ["--checkpoint", str(made / "latest_net_E.pth"), "--config", str(tiny_config), *folders]
        )


def test_sources_that_are_images_have_one_class(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    settings = [*FEATURES, "data.layout=paired_folders", "data.n_classes=0", "data.source_folder={split}_img"]
    settings += ["data.target_folder={split}_img", f"data.root={label_data_set}", "data.instance_edges=false"]
    made = untrained_run(tiny_config, *settings)
    cluster(made)
    assert list(read_weights_file(made / FILE_NAME)["feature_clusters"]) == [0]
    translated(made, tmp_path / "out")


def test_a_run_without_features_refuses_clusters(tiny_config: Path, tmp_path: Path) -> None:
    plain = untrained_run(tiny_config)
    with pytest.raises(ConfigError, match="takes no instance features"):
        translated(plain, tmp_path / "out", "--features", "given")
    with pytest.raises(ConfigError, match="has no feature encoder"):
        cluster(plain)


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
    for bad, message in (([], "nothing to cluster"), ([encoded(float("nan"), 1, 300)], "not finite")):
        with pytest.raises(ConfigError, match=message):
            cluster_features.cluster(bad, n_clusters=2)
