"""Runs that go on equal runs that were never stopped, bit for bit: rows 19 and 20."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.processes import train_two
from tests.reliability.faults import struck, throw
from tests.runs import assert_same_state, records, run, with_slow
from training.methods.paired import Paired
from training.run import LoopState

PRECISIONS = {
    "float32": ["amp.opt_level=O0"],
    "bfloat16": ["amp.opt_level=O1", "amp.dtype=bfloat16"],
    "float16": ["amp.opt_level=O1", "amp.dtype=float16"],
}
ENHANCER = ["generator.name=local", "generator.n_enhancer_blocks=1", "train.freeze_global_epochs=2"]
STATES = {
    "average": ["train.ema_decay=0.9"],
    "pool": ["train.pool_size=3"],
    "decay": ["train.epochs=1", "train.decay_epochs=9"],
    "enhancer": [*ENHANCER, "data.synthetic.width=64", "data.synthetic.height=64"],
    "augmented": ["augmentation.policy=[color,translation,cutout]"],
}
STOPS = {"in an epoch": 7, "at its end": 10, "at the last step": 12}  # an epoch has 5 samples
WORKERS = {"0": ("0", "0"), "2": ("2", "2"), "0 then 2": ("0", "2")}
FURTHER = 6  # beyond the end of an epoch, wherever the run stops

# each precision with each state; the place and the workers go round, so that each meets each
ALL_CELLS = [
    (precision, state, stop, workers)
    for i, precision in enumerate(PRECISIONS)
    for j, state in enumerate(STATES)
    for stop, workers in (
        (list(STOPS)[(i + j) % 3], list(WORKERS)[j % 3]),
        (list(STOPS)[(i + j + 1) % 3], list(WORKERS)[(j + 1 + i) % 3]),
    )
]
COVERING = {  # of each precision, place and number of workers one; tests/end_to_end/test_resume.py has each state
    ("float32", "enhancer", "at its end", "2"),
    ("bfloat16", "decay", "in an epoch", "0 then 2"),
    ("float16", "average", "at the last step", "0"),
}
CELLS = with_slow(sorted(COVERING), [cell for cell in ALL_CELLS if cell not in COVERING])
BASE = ["log.every_steps=1", "log.images_every_steps=9", "checkpoint.every_steps=1000"]


def test_the_cells_of_a_short_run_cover_each_axis() -> None:
    chosen = COVERING & set(ALL_CELLS)
    assert len(chosen) == len(COVERING)
    for axis, values in ((0, PRECISIONS), (2, STOPS), (3, WORKERS)):
        assert {cell[axis] for cell in chosen} == set(values)


def losses(config: Path, name: str, from_step: int) -> list[dict[str, float]]:
    """Return the recorded losses of each step after `from_step`."""
    recorded = [record for record in records(config, "loss/G/total", name) if record["step"] > from_step]
    return [{tag: record[tag] for tag in record if tag == "step" or tag.startswith("loss/")} for record in recorded]


def assert_same_end(config: Path, stop: int) -> None:
    end = stop + FURTHER
    assert_same_state(config, end)
    assert len(losses(config, "tiny", stop)) == FURTHER
    assert losses(config, "tiny", stop) == losses(config, "whole", stop)


@pytest.mark.row(19)
@pytest.mark.parametrize(("precision", "state", "stop", "workers"), CELLS)
def test_one_process(tiny_config: Path, precision: str, state: str, stop: str, workers: str) -> None:
    settings = [*BASE, *PRECISIONS[precision], *STATES[state]]
    before, after = (f"data.workers={n}" for n in WORKERS[workers])
    step = STOPS[stop]
    run(tiny_config, *settings, f"train.max_steps={step + FURTHER}", "run.name=whole", before)
    # otherwise a finished run is extended
    saves = [f"checkpoint.every_steps={step}"] if stop != "at the last step" else []
    run(tiny_config, *settings, f"train.max_steps={step}", *saves, before)
    run(tiny_config, *settings, f"train.max_steps={step + FURTHER}", after)
    assert_same_end(tiny_config, step)


OF_TWO = [("float32", "average", 5, "2"), ("float32", "enhancer", 7, "0"), ("bfloat16", "decay", 6, "0 then 2")]
OF_TWO += [("bfloat16", "average", 7, "0"), ("float16", "decay", 7, "2"), ("float16", "enhancer", 6, "0")]
OF_TWO += [("bfloat16", "augmented", 7, "2"), ("float32", "augmented", 7, "0")]


@pytest.mark.row(19)
@pytest.mark.slow  # tests/end_to_end/test_distributed.py has a shorter one
@pytest.mark.parametrize(("precision", "state", "step", "workers"), OF_TWO)
def test_two_processes(tiny_config: Path, precision: str, state: str, step: int, workers: str) -> None:
    settings = [*BASE, *PRECISIONS[precision], *STATES[state], "data.synthetic.train_samples=12"]
    before, after = (f"data.workers={n}" for n in WORKERS[workers])
    end = f"train.max_steps={step + FURTHER}"
    runs = ([end, "run.name=whole", before], [f"train.max_steps={step}", before], [end, after])
    train_two(tiny_config, *([*settings, *arguments] for arguments in runs))
    assert_same_end(tiny_config, step)


@pytest.mark.row(19)
def test_a_run_that_forgets_its_place_is_noticed(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    load = LoopState.load_state_dict

    def forgetful(self: LoopState, state: Mapping[str, Any]) -> None:
        load(self, state)
        self.batches -= 1

    end = f"train.max_steps={7 + FURTHER}"
    run(tiny_config, *BASE, end, "run.name=whole")
    run(tiny_config, *BASE, "train.max_steps=7")
    monkeypatch.setattr(LoopState, "load_state_dict", forgetful)
    run(tiny_config, *BASE, end)
    with pytest.raises(AssertionError):
        assert_same_end(tiny_config, 7)


@pytest.mark.row(19)
def test_means_of_an_interrupted_report_are_those_of_a_whole_run(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is saved at step 6, between the reports of steps 4 and 8, and dies after it."""
    settings = ["log.every_steps=4", "log.images_every_steps=5", "checkpoint.every_steps=3", "train.max_steps=12"]
    run(tiny_config, *settings, "run.name=whole")
    with monkeypatch.context() as context:
        context.setattr(Paired, "step", struck(Paired.step, [8], lambda: throw(MemoryError())))
        with pytest.raises(MemoryError):
            run(tiny_config, *settings)
    run(tiny_config, *settings)
    speed = {"progress/images_per_s", "progress/waiting_for_data"}
    whole, resumed = (
        [{tag: row[tag] for tag in row.keys() - speed} for row in records(tiny_config, "", name)]
        for name in ("whole", "tiny")
    )
    assert len(whole) == 6
    assert resumed == whole


@pytest.mark.row(20)
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_steps_of_tensorboard_rise(tiny_config: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool) -> None:
    settings = ["log.every_steps=1", "checkpoint.every_steps=4"]
    if is_killed:
        with monkeypatch.context() as context:
            context.setattr(Paired, "step", struck(Paired.step, [7], lambda: throw(MemoryError())))
            with pytest.raises(MemoryError):
                run(tiny_config, *settings, "train.max_steps=100")
    else:
        run(tiny_config, *settings, "train.max_steps=4")
    run(tiny_config, *settings, "train.max_steps=9")
    board = EventAccumulator(str(tiny_config.parent / "runs" / "tiny"), size_guidance={"scalars": 0})
    board.Reload()
    for tag in board.Tags()["scalars"]:
        steps = [event.step for event in board.Scalars(tag)]
        assert steps == sorted(set(steps)), tag
    assert [event.step for event in board.Scalars("loss/G/l1")] == list(range(1, 10))
