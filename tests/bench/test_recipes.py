"""The comparison of recipes: their configurations, epochs and figures, and the classes that their translations show."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import bench.recipes
from bench.measure import markdown_table
from bench.recipes import RECIPES, Run, config_of, epochs_of, mean_iou, segmentation_network
from configs import build
from data.facades.dataset import SyntheticFacades


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_small_and_on_the_same_data(name: str) -> None:
    config, demo = (config_of(recipe, n_pairs=125, seed=3) for recipe in (name, "demo"))
    found, expected = (build.build_layout(one, "test", needs_targets=True) for one in (config, demo))
    assert len(found) == len(expected) == 100
    assert torch.equal(found.read(2).source, expected.read(2).source)
    assert (config.data.test_split, config.data.flip, config.data.preprocess) == ("test", False, "none")
    assert build.build_conditioning(config) == build.build_conditioning(demo)
    assert (config.run.seed, config.train.batch_size, config.loss.vgg) == (3, 1, 0)
    assert sum(weight.numel() for weight in build.build_generator(config).parameters()) < 8e6


def test_epochs_fill_the_time_and_decay_as_the_recipe_does() -> None:
    assert epochs_of("pix2pixHD", 125, 899) == ["train.epochs=4", "train.decay_epochs=3"]
    assert epochs_of("demo", 60, 500) == ["train.epochs=8", "train.decay_epochs=0"]
    assert epochs_of("SPADE", 125, 10) == ["train.epochs=1", "train.decay_epochs=1"]


def test_figures_are_those_of_the_translations_and_of_the_last_logits(tmp_path: Path) -> None:
    run = Run("pix2pixHD, nearest", 60, 1, tmp_path)
    run.output.mkdir()
    mean = {"l1": 0.07, "ssim": 0.8, "ms_ssim": 0.9, "sharpness": 0.95, "psnr": 20.0}
    (run.output / "metrics.json").write_text(json.dumps({"mean": mean}))
    (tmp_path / run.name).mkdir()
    logged = [{"logits/D/real": 9.0, "logits/D/fake": 8.0}, {"logits/D/real": 0.6, "logits/D/fake": 0.4}]
    lines = [*logged, {"logits/D/validation": 0.45, "validation/l1": 0.08}]
    (tmp_path / run.name / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = run.figures()
    assert found.pop("gap of D") == pytest.approx(0.75)
    assert found == {"L1": 0.07, "SSIM": 0.8, "MS-SSIM": 0.9, "sharpness": 0.95}


def test_seeds_are_shown_as_mean_and_half_of_their_range() -> None:
    table = markdown_table([{"recipe": "x", "L1": [0.07, 0.08, 0.09], "IoU": [0.5], "gap": []}])
    assert table.splitlines()[-1] == "| x | 0.08 ± 0.01 | 0.5 |  |"


class Thresholds(nn.Module):
    """Classes 0 and 1 for dark and light pixels."""

    def forward(self, image: Tensor) -> Tensor:
        light = image.mean(dim=1, keepdim=True)
        return torch.cat([-light, light], dim=1)


def test_pixels_of_all_images_are_counted_together() -> None:
    labels = torch.zeros(1, 2, 4, dtype=torch.uint8)
    labels[..., 2:] = 1
    right = (labels * 255).expand(3, 2, 4)
    dark = torch.zeros(3, 2, 4, dtype=torch.uint8)
    names = ("dark", "light")
    assert mean_iou(Thresholds(), names, [(right, labels)]) == 1
    found = mean_iou(Thresholds(), names, [(right, labels), (dark, labels)])
    assert found == pytest.approx((8 / 12 + 4 / 8) / 2)


def test_the_classes_of_real_photos_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.recipes, "N_SEGMENTATION_STEPS", 12)
    layout = SyntheticFacades.open("train", seed=0, train_samples=8, val_samples=1, test_samples=1, height=64, width=64)
    state = torch.get_rng_state()
    assert SyntheticFacades.own_classes is not None
    names = SyntheticFacades.own_classes.names
    network = segmentation_network(layout, len(names))
    assert torch.equal(torch.get_rng_state(), state)
    samples = [layout.read(index) for index in range(8)]
    images = [(sample.target, sample.source) for sample in samples]
    wrong = [(sample.target, other.source) for sample, other in zip(samples, samples[::-1], strict=True)]
    assert mean_iou(network, names, images) > 1.3 * mean_iou(network, names, wrong)
