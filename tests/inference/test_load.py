"""Networks are read from files by direction and name, also while a training deletes files."""

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.load import load_from, load_generator, load_network
from models.originals.format import FileRole, OriginalWeightsError
from models.originals.weights import import_original
from tests.runs import assert_equal, untrained_run
from utils.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.errors import ConfigError
from utils.log import logger
from utils.safetensors_file import write_safetensors

TENSORS = dict[str, torch.Tensor]


@pytest.fixture
def file(tiny_config: Path) -> Path:
    """The checkpoint of a run with an average."""
    return checkpoint_path(untrained_run(tiny_config, averaged=True), 1)


@pytest.fixture
def state(file: Path) -> dict[str, Any]:
    """The content of the checkpoint."""
    return load_checkpoint(file)


def find_file(checkpoint: Path | None, role: FileRole = "generator", direction: str | None = None) -> Path:
    return load_from(checkpoint, lambda file: file, role, direction)[0]


def test_the_average_is_read_unless_the_trained_weights_are_wanted(file: Path, state: dict[str, Any]) -> None:
    trained: TENSORS = state["networks"]["generator"]
    average, raw = load_generator(file), load_generator(file, raw_weights=True)
    assert (average.weights, raw.weights) == ("average", "raw")
    assert_equal(raw.generator.state_dict(), trained)
    with pytest.raises(CheckpointError, match=r"its weights do not fit its configuration: .*Remove overrides"):
        load_generator(file, ["generator.base_channels=8"])
    assert_equal(average.generator.state_dict(), {name: value + 1 for name, value in trained.items()})
    assert (average.step, average.name, average.direction) == (1, "tiny", "AtoB")


def test_networks_are_read_by_kind_and_by_name(file: Path, state: dict[str, Any], tmp_path: Path) -> None:
    discriminator = load_network(file, "discriminator")
    assert_equal(discriminator.state_dict(), state["networks"]["discriminator"])
    assert_equal(load_network(file, "discriminator", "discriminator").state_dict(), discriminator.state_dict())
    assert_equal(load_network(file, "generator", "generator").state_dict(), load_generator(file).generator.state_dict())
    with pytest.raises(CheckpointError, match=r"its generator has no encoder"):
        load_network(file, "encoder")
    with pytest.raises(CheckpointError, match=r"discriminator_A"):
        load_network(file, "discriminator", "discriminator_A")
    for load in (load_generator, partial(load_network, role="discriminator")):
        with pytest.raises(ConfigError, match=r"direction BtoA: method.name=paired trains AtoB\."):
            load(file, direction="BtoA")


def test_a_run_with_one_generator_knows_data_direction_as_its_direction(tiny_config: Path, tmp_path: Path) -> None:
    data = ["data.layout=side_by_side", "data.root=.", "data.instance_edges=false", "data.direction=BtoA"]
    file = checkpoint_path(untrained_run(tiny_config, *data), 1)
    for direction in (None, "AtoB", "BtoA"):
        loaded = load_generator(file, direction=direction)
        assert (loaded.direction, loaded.named_direction) == ("AtoB", None)
        load_network(file, "discriminator", direction=direction)
    loaded = load_generator(file)
    write_safetensors(tmp_path / "x.safetensors", loaded.generator.state_dict(), loaded.facts())
    assert load_generator(tmp_path / "x.safetensors", direction="BtoA").direction == "AtoB"


def test_an_exported_file_of_an_earlier_version_has_no_direction(file: Path, tmp_path: Path) -> None:
    loaded = load_generator(file)
    facts = {name: value for name, value in loaded.facts().items() if name != "direction"}
    write_safetensors(tmp_path / "x.safetensors", loaded.generator.state_dict(), facts)
    again = load_generator(tmp_path / "x.safetensors")
    assert (again.direction, again.step, again.weights) == ("AtoB", 1, "raw")
    assert_equal(again.generator.state_dict(), loaded.generator.state_dict())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": "another"}, "has format another 1, expected pairgan-generator 1 or 2"),
        ({"step": json.dumps("seven")}, "its settings cannot be read"),
        ({"direction": "BtoA"}, r"its generator translates BtoA, not AtoB\. Leave --direction out, or name the file o"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_an_exported_file_that_cannot_be_used_is_refused(
    file: Path, tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    loaded = load_generator(file)
    write_safetensors(tmp_path / "x.safetensors", loaded.generator.state_dict(), loaded.facts() | changed)
    with pytest.raises(CheckpointError, match=message):
        load_generator(tmp_path / "x.safetensors", direction="AtoB")


@pytest.mark.parametrize("is_named", [False, True])
def test_a_checkpoint_that_is_deleted_gives_way_to_the_next_unless_it_was_named(tmp_path: Path, is_named: bool) -> None:
    first, latest = (checkpoint_path(tmp_path, step) for step in (1, 2))
    for path in (first, latest):
        save_checkpoint(path, {})

    def load(path: Path) -> int:
        latest.unlink(missing_ok=True)
        return len(load_checkpoint(path))

    if is_named:
        with pytest.raises(CheckpointError, match=r"00000002\.pt: no such checkpoint file; checkpoints in .*00000001"):
            load_from(latest, load)
    else:
        assert load_from(tmp_path, load)[0] == first


def folder_of(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


@pytest.mark.parametrize(
    ("names", "kind", "expected"),
    [
        (["latest_net_G.pth", "latest_net_E.pth", "20_net_E.pth"], "encoder", "latest_net_E.pth"),
        (["200_net_G.pth", "latest_net_G.pth", "90_net_G.pth"], "generator", "latest_net_G.pth"),
        (["iter_900_net_G.pth", "iter_1000_net_G.pth"], "generator", "iter_1000_net_G.pth"),
        (["models/best_G.pth", "models/best_EMA.pth", "models/best_D.pth"], "generator", "models/best_EMA.pth"),
        (["models/best_EMA.pth", "models/latest_EMA.pth"], "generator", "models/latest_EMA.pth"),
    ],
)
def test_the_latest_file_of_a_network_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: list[str], kind: FileRole, expected: str
) -> None:
    with caplog.at_level(logging.INFO, logger.name):
        assert find_file(folder_of(tmp_path, *names), kind) == tmp_path / expected
    assert f"{Path(expected).name}, not " in caplog.text


def test_the_latest_file_of_a_direction_is_taken(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, *(f"{when}_net_G_{side}.pth" for when in ("9", "latest") for side in "AB"))
    for direction, letter in (("AtoB", "A"), ("BtoA", "B"), (None, "A")):
        assert find_file(folder, direction=direction) == tmp_path / f"latest_net_G_{letter}.pth"


def test_a_folder_without_the_network_names_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"runs: no run with a checkpoint\. Train one first"):
        find_file(None)
    folder_of(tmp_path, "generator.onnx")
    with pytest.raises(CheckpointError, match="is an ONNX export"):
        find_file(tmp_path / "generator.onnx")
    folder_of(tmp_path, "cyclegan/latest_net_G_A.pth", "mine/checkpoint-00000001.pt", "oasis/models/best_EMA.pth")
    message = r"cyclegan: the folder holds no checkpoint and no generator BtoA of an original program\. Name one"
    with pytest.raises(CheckpointError, match=message):
        find_file(tmp_path / "cyclegan", direction="BtoA")
    with pytest.raises(CheckpointError, match=r"these runs: cyclegan, mine, oasis\.$"):
        find_file(tmp_path)
    with pytest.raises(CheckpointError, match=r"no such checkpoint file\. Runs in \S+: cyclegan, mine, oasis\.$"):
        find_file(tmp_path / "label2cities")


@pytest.mark.parametrize("name", ["cut_generator", "cut_generator_no_antialias"])
def test_biases_before_norms_are_kept_where_features_are_compared(
    reference: dict[str, Any], tmp_path: Path, name: str
) -> None:
    weights, file = reference[name]["state_dict"], tmp_path / "latest_net_G.pth"
    torch.save(weights, file)
    found = load_network(file, "generator", keeps_biases=True).state_dict()
    second = "model.8.bias" if "model.8.bias" in weights else "model.7.bias"
    assert torch.equal(found["downs.0.0.bias"], weights["model.4.bias"])
    assert torch.equal(found["downs.1.0.bias"], weights[second])
    assert ("downs.0.0.bias" in load_network(file, "generator").state_dict()) == (name == "cut_generator")


def test_cuts_projection_is_read(reference: dict[str, Any], tmp_path: Path) -> None:
    torch.save(reference["patch_sample"]["state_dict"], tmp_path / "latest_net_F.pth")
    file, projection = load_from(tmp_path, partial(load_network, role="projection"), "projection")
    assert projection.state_dict().keys() >= {"taps.0.0.weight", "taps.2.2.bias"}
    with pytest.raises(OriginalWeightsError, match=r"holds a PatchProjection, expected a generator"):
        load_network(file, "generator")


def test_an_original_of_another_precision_is_read_in_float32(reference: dict[str, Any], tmp_path: Path) -> None:
    """pix2pixhd_global_batchnorm: its running means contain biases, which are subtracted in float32."""
    weights = reference["pix2pixhd_global_batchnorm"]["state_dict"]
    rounded = {key: value.half() if value.is_floating_point() else value for key, value in weights.items()}
    torch.save(rounded, tmp_path / "7_net_G.pth")
    floats = {key: value.float() if value.is_floating_point() else value for key, value in rounded.items()}
    expected = import_original(floats).network.state_dict()
    generator = load_generator(tmp_path / "7_net_G.pth").generator
    assert_equal(generator.state_dict(), expected)
    assert {weight.dtype for weight in generator.parameters()} == {torch.float32}
