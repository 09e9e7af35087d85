"""The declaration of a method: the settings that it refuses, and those that are its own."""

import pytest

from configs.load import config_from_dict
from configs.schema import InitConfig
from training.report.plan import downloads
from utils.errors import ConfigError


def test_a_section_of_another_method_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cycle\.identity is 1\.0, expected 0\.5, .*\(method\.name=paired"):
        config_from_dict({}, "", ["cycle.identity=1"])


@pytest.mark.parametrize("name", ["contrastive", "cycle"])
def test_a_method_with_losses_of_its_own_does_without_the_adversarial_one(name: str) -> None:
    common = {"method": {"name": name}, "data": {"layout": "unpaired_folders", "root": "x"}}
    none = ["loss.adversarial=0", "loss.feature_matching=0", "loss.perceptual=0"]
    assert config_from_dict(common, "", none).loss_weights == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["loss.perceptual=5"], r"loss\.perceptual is 5.*, expected 0, "),
        (["train.retain_graph=false"], r"train\.retain_graph is false, expected true"),
        (["data.layout=paired_folders"], r"data\.layout is paired_folders, expected one of unpaired_folders"),
        (["data.source_channels=1"], r"data\.target_channels is 3, expected 1"),
        (["loss.class_weights={1: 0}"], r"loss\.class_weights is .*, expected \{\} without loss\.outside_mask"),
        (["loss.outside_mask=10"], r"loss\.class_weights is \{\}, expected "),
        (
            ["loss.outside_mask=1", "loss.class_weights={1: 0}", "data.layout=synthetic_day_night"],
            r"data\.layout is synthetic_day_night, expected one of unpaired_folders with loss",
        ),
        (["loss.shift_reach=2"], r"loss\.shift_reach is 2, expected 0, "),
        (["data.zoom=[1,2]"], r"data\.zoom is .*, expected \[\], "),
        (["metrics.extra=[fid,lpips]"], r"metrics\.extra is .*, expected a list of some of swd, fid, kid"),
        (["init.discriminator_C=x"], r"unknown key init\.discriminator_C"),
        (["init.networks={critic: x}"], r"init\.critic is x, expected null: method\.name=\w+ trains generator"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["contrastive", "cycle"])
def test_methods_without_pairs_refuse_what_needs_pairs(name: str, settings: list[str], message: str) -> None:
    common = {"method": {"name": name}, "data": {"layout": "unpaired_folders", "root": "x"}}
    with pytest.raises(ConfigError, match=message):
        config_from_dict(common, "", settings)


def test_losses_that_a_method_does_not_compute_are_silent_at_their_defaults_and_at_0() -> None:
    common = {"method": {"name": "cycle"}, "data": {"layout": "unpaired_folders", "root": "x"}}
    assert config_from_dict(common, "").loss_weights == {"adversarial": 1.0}
    assert downloads(config_from_dict(common, "", ["data.source_channels=5", "data.target_channels=5"])) == []
    config_from_dict(
        common, "", ["loss.perceptual=0", "loss.feature_matching=0", "train.pool_size=50", "metrics.extra=[fid]"]
    )
    config_from_dict(common, "", ["data.source_channels=1", "cycle.identity=0"])
    for method, setting in (("contrastive", "train.pool_size=1"), ("cycle", "train.discriminator_steps=2")):
        with pytest.raises(ConfigError, match="expected"):
            config_from_dict(common, "", [f"method.name={method}", setting])


def test_a_network_of_a_method_has_a_file_by_its_name() -> None:
    common = {"method": {"name": "cycle"}, "data": {"layout": "unpaired_folders", "root": "x"}}
    settings = ["init.generator=a.pth", "init.generator_BtoA=b.pth", "init.discriminator_A=c.pth"]
    init = config_from_dict(common, "", settings).init
    assert init.networks == {"generator": "a.pth", "generator_BtoA": "b.pth", "discriminator_A": "c.pth"}
    assert config_from_dict(common, "", settings).without_paths().init == InitConfig()
    with pytest.raises(ConfigError, match=r"init\.generator_BtoA is b\.pth, expected null: .*=contrastive trains gen"):
        config_from_dict(common, "", ["method.name=contrastive", settings[1]])
