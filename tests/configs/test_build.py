"""From a configuration to its parts."""

from pathlib import Path

import pytest
import torch

from configs import build
from configs.load import load_config
from configs.schema import Config
from data.conditioning import ValueRange
from data.pair_augmentation import PairAugmentation
from models.generator import EncodedGenerator
from models.spectral_norm import spectral_norms
from tests.runs import OASIS, SPADE, STYLE
from utils.errors import ConfigError

CPU = torch.device("cpu")
N_FACADES = 12  # classes of the embedded data set
FOLDERS = ["data.layout=paired_folders", "data.root=.", "data.n_classes=5"]
VALUES = ["data.layout=paired_folders", "data.root=.", "data.instance_edges=false", "data.source_channels=2"]
VALUES += ["data.source_range=[0,1000]"]


@pytest.fixture
def config(tiny_config: Path) -> Config:
    return load_config(tiny_config)


@pytest.mark.parametrize(("level", "wanted"), [("O0", "ieee"), ("O1", "tf32")])
def test_float32_is_no_tf32_at_o0(tiny_config: Path, level: str, wanted: str) -> None:
    build.prepare_device(load_config(tiny_config, [f"amp.opt_level={level}"]), CPU)
    assert torch.backends.cudnn.conv.fp32_precision == wanted  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], {"n_classes": N_FACADES, "channels": N_FACADES + 1, "needs_instances": True, "is_8_bit": True}),
        (["data.instance_edges=false"], {"channels": N_FACADES, "needs_instances": False}),
        ([*FOLDERS, "features.n_channels=3", "features.origin=precomputed"], {"features": "precomputed"}),
        (STYLE, {"encodes_style": True}),
        (VALUES, {"channels": 2, "is_8_bit": False, "source_range": ValueRange.of([0, 1000]), "target_range": None}),
        ([*FOLDERS, "generator.scale=2"], {"n_classes": 5, "target_scale": 2}),
    ],
    ids=["labels", "no edges", "precomputed", "style", "values", "scale"],
)
def test_networks_are_conditioned_on_what_the_settings_name(
    tiny_config: Path, settings: list[str], expected: dict[str, object]
) -> None:
    conditioning = build.data_facts(load_config(tiny_config, settings)).conditioning
    assert {name: getattr(conditioning, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("settings", "kind", "n_inputs"),
    [
        ([], "GlobalGenerator", N_FACADES + 1),
        (["generator.name=unet", "generator.n_downsamplings=5"], "UnetGenerator", N_FACADES + 1),
        (OASIS, "SpadeGenerator", N_FACADES + 1),
        (STYLE, "StyleConditionedGenerator", N_FACADES + 1),
        (["features.n_channels=2"], "FeatureConditionedGenerator", N_FACADES + 1 + 2),
        ([*FOLDERS, "features.n_channels=3", "features.origin=precomputed"], "GlobalGenerator", 5 + 1 + 3),
    ],
)
def test_a_generator_takes_the_condition_and_the_features(
    tiny_config: Path, settings: list[str], kind: str, n_inputs: int
) -> None:
    network = build.build_generator(load_config(tiny_config, settings))
    assert type(network).__name__ == kind
    inner = network.generator if isinstance(network, EncodedGenerator) else network
    with torch.no_grad():
        made = inner.eval()(torch.zeros(1, n_inputs, 32, 32))
    assert made.shape == (1, 3, 32, 32)


def test_spectral_norm_is_where_the_settings_want_it(tiny_config: Path) -> None:
    for settings, wanted in (([], (False, False)), (SPADE, (True, True))):
        config = load_config(tiny_config, settings)
        networks = build.build_generator(config), build.build_discriminator(config)
        assert tuple(bool(spectral_norms(network)) for network in networks) == wanted


def test_a_direction_names_the_network_that_translates(config: Config) -> None:
    assert config.method.translator() == config.method.translator("AtoB") == "generator"
    assert build.data_facts(config).conditioning == build.data_facts(config, "AtoB").conditioning
    for part in (build.data_facts, build.build_generator):
        with pytest.raises(
            ConfigError, match=r"direction BtoA: method.name=paired trains AtoB\. Leave --direction out"
        ):
            part(config, "BtoA")


def test_a_data_set_with_classes_of_its_own_takes_no_other_number(tiny_config: Path) -> None:
    assert build.data_facts(load_config(tiny_config)).n_classes == N_FACADES
    with pytest.raises(ConfigError, match=f"data.n_classes is 7, expected {N_FACADES}.*synthetic_facades"):
        build.data_facts(load_config(tiny_config, ["data.n_classes=7"]))


def test_a_discriminator_that_learns_classes_sees_no_cut_pixels(tiny_config: Path) -> None:
    with pytest.raises(ConfigError, match=r"augmentation.policy is .*cutout"):
        build.build_augmentation(load_config(tiny_config, [*OASIS, "augmentation.policy=[cutout]"]))


def test_workers_are_shared_by_the_processes_of_a_machine(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "usable_cores", lambda: 24)
    fixed, automatic = (load_config(tiny_config, [f"data.workers={number}"]).data for number in (3, "auto"))
    assert build.count_workers(fixed, 4) == 3
    assert [build.count_workers(automatic, n) for n in (1, 4, 40)] == [8, 3, 1]


def test_settings_of_augmentation_reach_the_samples(tiny_config: Path) -> None:
    settings = ["data.rotation_degrees=[-10,10]", "data.zoom=[0.5,2]", "data.elastic=[0,0.1]"]
    config = load_config(tiny_config, [*settings, "data.quarter_turns=true"])
    augmentation = build.build_preprocessing(config).augmentation
    assert augmentation == PairAugmentation(
        rotation_degrees=[-10, 10], scale=[0.5, 2], elastic=[0, 0.1], quarter_turns=True
    )
    assert build.build_preprocessing(load_config(tiny_config)).augmentation is None
