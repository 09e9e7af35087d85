"""A step that is captured and repeated trains the same networks; what a CUDA graph cannot do, no step does."""

from pathlib import Path

import pytest
import torch

from configs.load import load_config
from data.batch import Batch
from tests.runs import OASIS, SPADE, STYLE, assert_equal, checkpoint, run, without_config
from tests.training.recorded_graphs import RecordedGraphs, Recorder
from training import setup, update_setup
from training.cuda_graph import WARM_UP_STEPS, CudaGraphs, CudaGraphStep, Run, Step
from training.setup import build_training
from training.update import AdversarialUpdate
from training.update_setup import build_step, build_update
from utils.distributed import World
from utils.errors import ConfigError

WORLD = World(0, 1, torch.device("cpu"))
WAYS = {
    "default": [],
    "float16": ["amp.opt_level=O1", "amp.dtype=float16"],
    "O2": ["amp.opt_level=O2", "amp.dtype=bfloat16", "generator.norm=batch"],
    "O3": ["amp.opt_level=O3", "amp.dtype=bfloat16"],
    "clipped": ["optimizer.max_gradient_norm=0.5", "log.gradient_norms=true", "train.retain_graph=false"],
    "penalties": ["loss.gan_mode=wgan", "loss.gradient_penalty=10", "loss.r1=1", "discriminator.spectral_norm=true"],
    "augmented": ["augmentation.policy=[color,translation,cutout]", "augmentation.probability=0.5", "loss.r1=1"],
    "controlled": ["augmentation.policy=[cutout,color]", "augmentation.target=0.5"],
    "recomputed": ["train.activation_checkpointing=true", "data.target_channels=1"],
    "weights": ["loss.class_weights={0: 0, 3: 2.5}", "augmentation.policy=[translation]", "loss.vgg=1"],
    "noise": ["generator.dropout=true"],
    "spade": [*SPADE, "generator.noise_channels=2"],
    "style": [*STYLE, "amp.opt_level=O1", "amp.dtype=bfloat16"],
    "oasis": [*OASIS, "amp.opt_level=O2", "amp.dtype=bfloat16"],
    "features": ["features.n_channels=3", "features.base_channels=4", "features.n_downsamplings=1"],
    "vgg": ["loss.vgg=10", "loss.vgg_imagenet_normalization=true", "train.activation_checkpointing=true"],
}
GPU_WAYS = WAYS | {
    "compiled": ["train.compile=true"],
    "several": ["train.discriminator_steps=2", "train.accumulation_steps=2", "train.ema_decay=0.9"],
}
BOTH = pytest.mark.parametrize("way", WAYS)


def make_update(
    config: Path, way: str, tmp_path: Path, weights: dict[str, torch.Tensor]
) -> tuple[AdversarialUpdate, Step]:
    """Return an update whose optimizers a graph could capture, and the plain step of it."""
    torch.save(weights, tmp_path / "vgg.pth")
    settings = [*WAYS[way], f"loss.vgg_weights={tmp_path / 'vgg.pth'}"]
    update = build_update(load_config(config, [*settings, "train.cuda_graph=true"]), WORLD)
    return update, build_step(load_config(config, settings), update)


def make_batches(n: int, size: int = 32) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)

    def ids(n_ids: int) -> torch.Tensor:
        return torch.randint(n_ids, (1, 1, size, size), dtype=torch.uint8, generator=generator)

    def photo() -> torch.Tensor:
        return torch.randint(256, (1, 3, size, size), dtype=torch.uint8, generator=generator)

    return [Batch((str(number),), ids(12), ids(4).int(), photo()) for number in range(n)]


def train(update: AdversarialUpdate, step: Step, n_steps: int) -> dict[str, float]:
    """Steps of two batches for the discriminator, at a learning rate that changes; the means of the losses."""
    batches = make_batches(2 * n_steps)
    torch.manual_seed(0)
    for number in range(n_steps):
        for network in update.networks.values():
            network.learning_rate = 1e-3 / (number + 1)
        step([[batches[2 * number]], [batches[2 * number + 1]]])
    return update.means.flush(WORLD)


@BOTH
def test_a_captured_step_makes_the_updates_of_a_step(
    tiny_config: Path, tmp_path: Path, vgg19_weights: dict[str, torch.Tensor], way: str
) -> None:
    (plain, plain_step), (captured, step) = (make_update(tiny_config, way, tmp_path, vgg19_weights) for _ in range(2))
    graphs = RecordedGraphs()
    n_steps = WARM_UP_STEPS + 4
    expected = train(plain, plain_step, n_steps)
    found = train(captured, CudaGraphStep(step, graphs), n_steps)  # type: ignore[arg-type]
    assert graphs.n_captured == 1
    assert found == expected
    for name, network in plain.networks.items():
        assert_equal(captured.networks[name].state_dict(), network.state_dict(), name)


@BOTH
def test_a_step_asks_for_no_value_of_the_device_and_brings_none(
    tiny_config: Path, tmp_path: Path, vgg19_weights: dict[str, torch.Tensor], way: str
) -> None:
    _, step = make_update(tiny_config, way, tmp_path, vgg19_weights)
    batches = make_batches(2)
    step([[batch] for batch in batches])  # what is made at first use may be brought
    with Recorder() as recorder:
        step([[batch] for batch in batches])
    names = [str(func) for func, *_ in recorder.calls]
    waiting = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal.default", "lift_fresh")
    assert len(names) > 100
    assert [name for name in names if any(word in name for word in waiting)] == []


def test_what_asks_is_found_out() -> None:
    with Recorder() as recorder:
        float(torch.ones(()))
        torch.tensor([1.0, 2.0])
    names = {str(func) for func, *_ in recorder.calls}
    assert {"aten._local_scalar_dense.default", "aten.lift_fresh.default"} <= names


def test_images_of_another_size_are_stepped_eagerly(
    tiny_config: Path, tmp_path: Path, vgg19_weights: dict[str, torch.Tensor]
) -> None:
    (plain, plain_step), (captured, captured_step) = (
        make_update(tiny_config, "default", tmp_path, vgg19_weights) for _ in range(2)
    )
    graphs = RecordedGraphs()
    step = CudaGraphStep(captured_step, graphs)  # type: ignore[arg-type]
    for small, large in zip(make_batches(6), make_batches(6, size=64), strict=True):
        for batch in (small, large):
            plain_step([[batch]])
            step([[batch]])
    assert graphs.n_captured == 1
    for name, network in plain.networks.items():
        assert_equal(captured.networks[name].state_dict(), network.state_dict(), name)


def test_a_run_with_a_graph_ends_as_one_without(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["train.ema_decay=0.9", "optimizer.decay=linear", "train.epochs=1", "train.decay_epochs=3"]
    settings += ["train.freeze_generator=[stem]", "train.max_steps=20", "train.cuda_graph=true"]
    made: list[RecordedGraphs] = []

    def make_graphs() -> RecordedGraphs:
        made.append(RecordedGraphs())
        return made[-1]

    monkeypatch.setattr(update_setup, "CudaGraphs", make_graphs)
    monkeypatch.setattr(setup, "check_cuda_graph", lambda *_: None)
    with monkeypatch.context() as context:
        context.setattr(update_setup, "CudaGraphStep", lambda step, _, trained: step)
        run(tiny_config, *settings, "run.name=plain")
    made.clear()
    run(tiny_config, *settings, "train.max_steps=10")
    run(tiny_config, *settings)
    assert [graphs.n_captured for graphs in made] == [1, 1]
    plain, captured = (without_config(checkpoint(tiny_config, 20, name)) for name in ("plain", "tiny"))
    assert_equal(plain, captured)


def test_without_a_gpu_there_is_no_graph(tiny_config: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.cuda_graph is true, expected false without a GPU"):
        build_training(load_config(tiny_config, ["train.cuda_graph=true"]), WORLD)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("way", [*(way for way in WAYS if way != "vgg"), "compiled", "several"])
def test_a_gpu_repeats_a_step(tiny_config: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    n_captured, original = 0, CudaGraphs.capture

    def capture(graphs: CudaGraphs, work: Run) -> Run:
        nonlocal n_captured
        n_captured += 1
        return original(graphs, work)

    monkeypatch.setattr(CudaGraphs, "capture", capture)
    settings = ["run.device=cuda", "train.max_steps=12", "log.every_steps=4", "train.epochs=99", *GPU_WAYS[way]]
    run(tiny_config, *settings, "run.name=plain")
    assert n_captured == 0
    run(tiny_config, *settings, "train.max_steps=6", "train.cuda_graph=true")
    run(tiny_config, *settings, "train.cuda_graph=true")  # goes on, with a graph of its own
    assert n_captured == 2
    for name in ("generator", "discriminator"):
        plain, captured = (checkpoint(tiny_config, 12, run_name)[name] for run_name in ("plain", "tiny"))
        assert captured["skipped_steps"] == plain["skipped_steps"]
        for key, weights in plain["network"].items():
            # Adam's first steps are the signs of the gradients, and tiny ones differ from run to run
            assert (weights - captured["network"][key]).float().abs().mean() < 5e-4, key
