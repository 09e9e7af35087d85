"""Every block of docs/library.md runs, on small drawn images; trackers that want a network are stand-ins."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from configs import build, load
from configs.schema import Config
from losses import REGISTERED_LOSSES
from models import BUILT_IN, DISCRIMINATORS, GENERATORS
from tests.docs.documents import ROOT
from training.launch import Run, train

SMALL = [
    *("run.device=cpu", "data.workers=0", "data.synthetic_size=[32,32]", "metrics.n_samples=2"),
    "data.synthetic_samples=[4,4,4]",
    *("generator.base_channels=4", "generator.hidden_channels=4", "discriminator.base_channels=4"),
    *("discriminator.n_layers=2", "train.max_steps=4", "log.every_steps=2", "log.images_every_steps=2"),
]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
TITLES = ["From programs", "Follow", "Search", "Weights & Biases", "MLflow", "A loss", "A network", "Load"]


def block(title: str) -> str:
    """The code below a heading."""
    (section,) = (part for part in re.split(r"^#+ ", PAGE, flags=re.MULTILINE) if part.startswith(title))
    (code,) = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.fixture(autouse=True)
def small_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    load_config = load.load_config

    def load_small(path: str, overrides: Sequence[str] = ()) -> Config:
        return load_config(path, [*SMALL, *overrides])

    monkeypatch.setattr(load, "load_config", load_small)
    monkeypatch.chdir(tmp_path)
    yield
    REGISTERED_LOSSES.clear()
    for registry, kind in ((GENERATORS, "generator"), (DISCRIMINATORS, "discriminator")):
        for name in registry.keys() - BUILT_IN[kind]:
            del registry[name]


def run_block(title: str, **changes: str) -> dict[str, Any]:
    """Run the code below a heading, with `changes` of its words; return its names."""
    code = block(title)
    for before, after in changes.items():
        assert before in code
        code = code.replace(before, after)
    names: dict[str, Any] = {"__name__": "block"}
    exec(compile(code, title, "exec"), names)
    return names


def state_of(run: str) -> dict[str, Any]:
    content = json.loads(Path("runs", run, "state.json").read_text())
    assert isinstance(content, dict)
    return content


def test_each_block_is_run_here() -> None:
    assert PAGE.count("```python") == len(TITLES) == len([block(title) for title in TITLES])


def test_a_run_is_trained_and_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    trained = run_block("From programs", mine="demo")["run"]
    assert isinstance(trained, Run)
    assert trained.best == Path("runs/demo/best.pt")
    best = torch.load(trained.best, weights_only=True)
    assert trained.best_metrics["l1"] == pytest.approx(-best["best"])
    names = run_block("Load")
    printed = capsys.readouterr().out
    assert re.search(r"torch\.Size\(\[2, 3, 32, 32\]\) torch\.uint8\n\{'l1': .*\}\n\{'loss/D/fake'", printed)
    assert all(weight.grad is not None for weight in names["run"].networks["generator"].parameters())


def test_a_callback_ends_the_run() -> None:
    run_block("Follow", **{"0.05": "1"})
    assert state_of("good_enough") == {
        "state": "finished", "step": 2, "signal": None, "reason": "on_validation returned True"
    }  # fmt: skip


@pytest.mark.slow  # importing optuna takes longer than the trials
def test_optuna_prunes_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    class TheSecond(optuna.pruners.BasePruner):
        def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            return trial.number == 1

    create = optuna.create_study
    monkeypatch.setattr(optuna, "create_study", lambda **options: create(pruner=TheSecond(), **options))
    study = run_block("Search", **{"n_trials=20": "n_trials=3"})["study"]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert [trial.last_step for trial in study.trials] == [4, 2, 4]
    assert [state_of(f"trial-{number}")["step"] for number in range(3)] == [4, 2, 4]
    assert Path("rates.db").is_file()


def test_weights_and_biases_reads_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = MagicMock()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    names = run_block("Weights & Biases")
    options = wandb.init.call_args.kwargs
    assert (options["name"], options["sync_tensorboard"]) == ("tracked", True)
    assert options["config"]["train"]["max_steps"] == 4
    names["tracked"].summary.update.assert_called_once_with(names["run"].metrics)
    assert list(Path("runs/tracked").glob("events.*"))


def test_mlflow_gets_the_figures_and_what_it_returns_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = MagicMock()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    run_block("MLflow")
    logged = [(call.kwargs["step"], set(call.args[0])) for call in mlflow.log_metrics.call_args_list]
    assert [step for step, _ in logged] == [2, 2, 4, 4]
    assert "loss/G/total" in logged[0][1]
    assert "validation/l1" in logged[1][1]
    mlflow.log_artifact.assert_called_once_with("runs/tracked_too/best.pt")


def test_a_loss_of_the_caller_is_trained() -> None:
    run_block("A loss")
    rows = [json.loads(line) for line in Path("runs/edges/metrics.jsonl").read_text().splitlines()]
    assert sum("loss/G/edges" in row for row in rows) == 2


def test_networks_of_the_caller_are_trained() -> None:
    names = run_block("A network")
    own = ["run.name=plain", "generator.name=plain", "discriminator.name=judge"]
    train(load.load_config("demo", ["train.max_steps=1", "generator.spectral_norm=false", *own]))
    assert GENERATORS.keys() - BUILT_IN["generator"] == {"plain"}
    assert isinstance(build.build_generator(load.load_config("demo", own)), names["Plain"])
