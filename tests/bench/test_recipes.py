"""The comparison of recipes: their settings, epochs, figures and pictures."""

import json
from pathlib import Path

import pytest
import torch

from bench.measure import markdown_table
from bench.recipes import DRAWN, N_SHOWN, RECIPES, Run, write_pictures
from configs.splits import open_split
from data.files.image_files import read_rgb, write_png


def run_of(recipe: str, root: Path = Path(), seed: int = 3) -> Run:
    settings = (*DRAWN, "data.root=x", "data.synthetic.height=64", "data.synthetic.width=64")
    return Run(recipe, seed, settings, root)


@pytest.mark.parametrize("recipe", [*RECIPES, "demo amp.opt_level=O2"])
def test_a_recipe_is_a_file_and_settings_of_its_own(recipe: str) -> None:
    config = run_of(recipe).config()
    assert (config.run.seed, config.data.layout, config.checkpoint.keep) == (3, "synthetic_facades", 1)
    assert (config.amp.opt_level == "O2") == recipe.startswith("demo ")
    assert len({run_of(recipe).name for recipe in RECIPES}) == len(RECIPES)


def test_epochs_make_the_steps_and_decay_as_the_recipe_does() -> None:
    assert run_of("own_pairs_small").epochs(899)[1:] == ["train.epochs=4", "train.decay_epochs=3"]
    assert run_of("demo").epochs(500)[1:] == ["train.epochs=4", "train.decay_epochs=0"]
    assert run_of("demo train.batch_size=2").epochs(500)[1:] == ["train.epochs=8", "train.decay_epochs=0"]
    assert run_of("own_pairs_small").epochs(10)[0] == "train.steps_per_epoch=null"
    assert run_of("own_pairs_small").epochs(10)[1:] == ["train.epochs=1", "train.decay_epochs=1"]


def test_figures_are_those_of_the_translations(tmp_path: Path) -> None:
    run = run_of("own_pairs_small loss.l1=60", tmp_path)
    run.output.mkdir()
    mean = {"l1": 0.07, "ssim": 0.8, "ms_ssim": 0.9, "sharpness": 0.95, "psnr": 20.0}
    (run.output / "metrics.json").write_text(json.dumps({"mean": mean}))
    (tmp_path / run.name).mkdir()
    logged = [{"progress/images_per_s": speed} for speed in (1.0, 4.0, 8.0)]
    (tmp_path / run.name / "metrics.jsonl").write_text("\n".join(map(json.dumps, [*logged, {"validation/l1": 0.1}])))
    assert list(run.figures().values()) == [250, 0.07, 20, 0.8, 0.9, 0.95]


def test_a_row_of_pictures_holds_the_target_and_each_translation(tmp_path: Path) -> None:
    runs = [run_of("demo", tmp_path), run_of("demo loss.l1=20", tmp_path)]
    for run in runs:
        run.output.mkdir()
        layout = open_split(run.config(), "test", needs_targets=True)
        for name in layout.names[:N_SHOWN]:
            write_png(run.output / f"{name}.png", torch.zeros(3, 64, 64, dtype=torch.uint8))
    write_pictures(runs, tmp_path / "grid.jpg")
    assert read_rgb(tmp_path / "grid.jpg").shape[2] > 3 * 64


def test_seeds_are_shown_as_mean_and_half_of_their_range() -> None:
    table = markdown_table([{"recipe": "x", "L1": [0.07, 0.08, 0.09], "IoU": [0.5], "gap": []}])
    assert table.splitlines()[-1] == "| x | 0.08 ± 0.01 | 0.5 |  |"
