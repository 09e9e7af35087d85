"""Every recipe: its networks are the originals', and it trains, on images and networks made small."""

import json
import re
from itertools import product
from pathlib import Path

import pytest
import SimpleITK
import torch
import yaml

from configs import build
from configs.load import load_config
from configs.schema import REPLACED
from data.drawn_volumes import draw_patient
from models.originals.weights import export_original, scheme_of
from tests.images import write_data_set
from tests.runs import run, translate
from tools import cluster_features
from training.run import LoopState

TRIED_APART = ("reference", "demo", "unpaired_small")
RECIPES = sorted(path for path in Path("configs").glob("*.yaml") if path.stem not in TRIED_APART)
REFERENCE = Path(__file__).parents[1] / "reference"
ORIGINALS = {
    name: network
    for file in ("state_dict_keys.json", "spade_state_dict_keys.json")
    for name, network in json.loads((REFERENCE / file).read_text()).items()
}
UNPAIRED = json.loads((REFERENCE / "unpaired_state_dict_keys.json").read_text())
ORIGINALS |= {name: {"keys": shapes} for name, shapes in UNPAIRED.items()}
NETWORKS = {
    "pix2pixhd_512p": ("pix2pixHD_G_global_label35_inst(in36)", "pix2pixHD_D_numD2_label35_inst(in39)"),
    "pix2pixhd_512p_features": ("pix2pixHD_G_global_label35_inst_feat(in39)", "pix2pixHD_D_numD2_label35_inst(in39)"),
    "pix2pixhd_1024p_24gb": ("pix2pixHD_G_local_ngf32_label35_inst(in36)", "pix2pixHD_D_numD3_label35_inst(in39)"),
    "pix2pixhd_1024p_12gb": ("pix2pixHD_G_local_ngf32_label35_inst(in36)", "pix2pixHD_D_numD3_label35_inst(in39)"),
    "spade_cityscapes": ("SPADE_G_cityscapes", "SPADE_D_cityscapes"),
    "spade_ade20k": ("SPADE_G_ade20k", "SPADE_D_ade20k"),
    "spade_coco": ("SPADE_G_coco", "SPADE_D_coco"),
    "pix2pix_facades": ("junyanz_G_unet_256_batch", "junyanz_D_basic_batch(in6)"),
    "pix2pix_maps": ("junyanz_G_unet_256_batch", "junyanz_D_basic_batch(in6)"),
    "pix2pix_edges": ("junyanz_G_unet_256_batch", "junyanz_D_basic_batch(in6)"),
    "cut_256": ("cut resnet_9blocks: latest_net_G", "cut basic: latest_net_D"),
    "fastcut_256": ("cut resnet_9blocks: latest_net_G", "cut basic: latest_net_D"),
    "cyclegan_256": (
        "cyclegan resnet_9blocks: latest_net_G_A, latest_net_G_B",
        "cyclegan basic: latest_net_D_A, latest_net_D_B",
    ),
}
SMALL = ["generator.base_channels=2", "discriminator.base_channels=2", "data.workers=0", "train.max_steps=2"]
SMALL += ["run.device=cpu", "train.batch_size=1", "train.accumulation_steps=1"]
SIDES = ("load_width", "load_height", "crop_width", "crop_height")
SMALL_BY_GENERATOR = {
    "global": ["generator.n_blocks=1"],
    "local": ["generator.n_blocks=1"],
    "unet": [],
    "spade": ["generator.hidden_channels=4", *(f"data.{key}=128" for key in SIDES)],
}
SMALL_BY_PREPROCESS = {
    "scale_width": ["data.load_width=128"],
    "resize_and_crop": [f"data.{key}=256" for key in SIDES],
    "crop": ["data.crop_width=64", "data.crop_height=64"],
    "none": [],
}


@pytest.fixture
def data_sets(tmp_path: Path) -> dict[str, Path]:
    """Two samples in each split of each layout."""
    write_data_set(tmp_path / "halves", [""])
    write_data_set(tmp_path / "folders", ["_A", "_B"], width=128)
    write_data_set(tmp_path / "labels", ["_label", "_inst", "_img"], width=128)
    for split, name in product(("train", "val", "test"), ("1", "2")):
        patient = draw_patient(0, int(name), (3, 64, 64))
        for kind, array in {"A": patient.mr, "B": patient.ct, "mask": patient.mask}.items():
            path = tmp_path / "volumes" / f"{split}_{kind}" / f"{name}.nii.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            SimpleITK.WriteImage(SimpleITK.GetImageFromArray(array), path)
    return {name: tmp_path / name for name in ("halves", "folders", "labels", "volumes")}


def test_recipes_have_no_former_settings() -> None:
    former = {key for keys in REPLACED.values() for key in keys.split()} - {*REPLACED}
    for path in RECIPES:
        sections = {name: of for name, of in yaml.safe_load(path.read_text()).items() if isinstance(of, dict)}
        assert former.isdisjoint(f"{name}.{key}" for name, of in sections.items() for key in of), path


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_are_the_originals_at_full_size(name: str) -> None:
    config = load_config(Path("configs") / f"{name}.yaml", ["data.root=/data"])
    with torch.device("meta"):
        generator, discriminator = build.build_generator(config), build.build_discriminator(config)
    for network in (generator, discriminator):
        network.to_empty(device="cpu")
    bare = generator.get_submodule("generator") if config.has_encoder else generator
    has_biases = not name.startswith("pix2pix_")
    found = (
        export_original(bare, scheme_of(bare), biases_before_norms=has_biases),
        export_original(discriminator, scheme_of(discriminator), biases_before_norms=has_biases),
    )
    for weights, original in zip(found, NETWORKS[name], strict=True):
        shapes = {key: tuple(shape) for key, shape in ORIGINALS[original]["keys"].items()}
        assert {key: tuple(value.shape) for key, value in weights.items()} == shapes


def settings_of(recipe: Path, data_sets: dict[str, Path]) -> list[str]:
    """Overrides that make a recipe small; its losses, updates and schedules stay."""
    config = load_config(recipe, ["data.root=/data"])
    layout = "halves" if config.data.layout == "side_by_side" else "labels" if config.data.n_classes else "folders"
    layout = "volumes" if config.data.has_volumes else layout
    settings = [f"data.root={data_sets[layout]}", *SMALL, *SMALL_BY_PREPROCESS[config.data.preprocess]]
    taps_a_fifth_block = config.method.name == "contrastive"
    settings += ["generator.scale=1"] * (config.generator.scale != 1)  # docs/converting.md's commands train it at 2
    return settings + SMALL_BY_GENERATOR[config.generator.name] + ["generator.n_blocks=5"] * taps_a_fifth_block


# one of each family but small_data, which the last test below trains; label maps are translated one way
SHORT = {("pix2pix_facades", "BtoA"), ("pix2pixhd_512p", "AtoB"), ("spade_cityscapes", "AtoB")}


@pytest.mark.parametrize(
    ("recipe", "direction"),
    [
        pytest.param(path, way, marks=[pytest.mark.slow] * ((path.stem, way) not in SHORT))
        for path in RECIPES
        for way in ("AtoB", "BtoA")
        if way == "AtoB" or load_config(path, ["data.root=/data"]).data.n_classes == 0
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)
@pytest.mark.usefixtures("cached_vgg19")
def test_it_trains_and_translates(recipe: Path, direction: str, data_sets: dict[str, Path], tmp_path: Path) -> None:
    config = load_config(recipe, ["data.root=/data"])
    settings = [*settings_of(recipe, data_sets), f"run.root={tmp_path / 'runs'}"]
    for part in ("generator", "discriminator"):  # a 1024p recipe begins with a run of the 512p one
        if part in config.init.networks:
            first = Path("configs/pix2pixhd_512p.yaml")
            begin = [*settings_of(first, data_sets), f"run.root={tmp_path / 'runs'}"]
            run(first, *begin, "generator.base_channels=4")
            settings += [f"init.{part}={tmp_path / 'runs' / 'pix2pixhd_512p'}"]
    run(recipe, *settings, f"data.direction={direction}")
    run_folder = tmp_path / "runs" / recipe.stem
    assert (run_folder / "checkpoint-00000002.pt").is_file()
    if config.has_encoder:
        cluster_features.main(["--checkpoint", str(run_folder)])
    translate("--checkpoint", str(run_folder), "--output", str(tmp_path / "out"))
    assert (tmp_path / "out" / ("1.nii.gz" if config.data.has_volumes else "1.png")).is_file()


@pytest.mark.parametrize(
    ("name", "n_steps"),
    {
        "demo": 500,
        "unpaired_small": 1800,
        "own_pairs_small": 3000,
        "small_data": 20_000,
        "colorization": 10_000,
    }.items(),
)
def test_small_recipes_make_as_many_steps_with_any_number_of_images(name: str, n_steps: int) -> None:
    config = load_config(name, ["data.root=."] if name not in TRIED_APART else [])
    for n_batches in (3, 60, 5000):
        state = LoopState(n_batches, config.train.batch_size, steps_per_epoch=config.train.steps_per_epoch)
        assert state.last_step(config.total_epochs, config.batches_per_step) == n_steps


@pytest.mark.parametrize("is_drawn", [True, False])
def test_unpaired_small_trains_on_what_is_drawn_and_on_folders_with_the_settings_in_its_head(
    is_drawn: bool, data_sets: dict[str, Path], tmp_path: Path
) -> None:
    recipe = Path("configs/unpaired_small.yaml")
    head = recipe.read_text().partition("run:\n")[0]
    shown = [setting for setting in re.findall(r"data\.[a-z_]+=\w+", head) if "ROOT" not in setting]
    own = [*shown, f"data.root={data_sets['folders']}"]
    drawn = ["data.synthetic_samples=[2,2,2]"]
    small = [*SMALL, "generator.n_blocks=5", f"run.root={tmp_path / 'runs'}"]
    run(recipe, *(drawn if is_drawn else own), *small)
    translate("--checkpoint", str(tmp_path / "runs" / "unpaired_small"), "--output", str(tmp_path / "out"))
    figures = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert ("l1" in figures.get("mean", {})) == is_drawn
