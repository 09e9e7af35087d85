"""Moving averages: their weights, and batch norm statistics that fit these weights."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from configs import build
from configs.load import load_config
from configs.splits import open_split
from data.batch import Batch
from data.loader import SampleKey, TrainingDataset
from inference.load import load_generator
from models.latent_inputs import draw_latents, image_seed
from models.running_statistics import batch_norms, estimating_statistics
from models.spectral_norm import settle_spectral_norm
from models.style_encoder import inference_network
from tests.runs import STYLE, assert_equal, built, checkpoint, run
from training.averages import WeightAverage, read_statistics_batches
from training.loop import open_loop
from training.report.sinks import Report
from training.run import build_training
from training.validation import Validation, ValidationReport
from utils.checkpoint_folder import checkpoint_path
from utils.distributed import World
from utils.signals import GracefulStop

AVERAGED = ["generator.norm=batch", "train.ema_decay=0.9", "optimizer.learning_rate=1e-3"]


def saved_statistics(config: Path, step: int, name: str = "tiny") -> dict[str, Tensor]:
    averaged = checkpoint(config, step, name)["averages"]["generator"]
    without = {key.removeprefix("module.").removeprefix("generator."): value for key, value in averaged.items()}
    return {key: value for key, value in without.items() if "running_" in key}


@pytest.mark.parametrize(
    "settings", [["generator.spectral_norm=true", "generator.dropout=true"], [*STYLE, "generator.noise_channels=2"]]
)
def test_saved_statistics_fit_the_averaged_weights(tiny_config: Path, settings: list[str]) -> None:
    run(tiny_config, *AVERAGED, *settings)
    saved = saved_statistics(tiny_config, 4)
    trained = checkpoint(tiny_config, 4)["networks"]["generator"]
    config = load_config(tiny_config, [*AVERAGED, *settings])
    layout = open_split(config, "train", needs_targets=True)
    dataset = TrainingDataset(layout, build.build_preprocessing(config), config.run.seed)
    conditioning = build.data_facts(config).conditioning
    network = inference_network(load_generator(checkpoint_path(tiny_config.parent / "runs" / "tiny", 4)).generator)
    settle_spectral_norm(network)
    with estimating_statistics(network), torch.no_grad():
        for index in range(len(layout)):  # fewer samples than batches that would be taken
            sample = dataset[SampleKey(0, index)]
            assert not isinstance(sample, Exception)
            draw_latents(network, [image_seed(0, sample.name)])
            network(conditioning(Batch.of([sample])))
    assert len(saved) == 2 * len(batch_norms(network)) > 0
    for key, value in saved.items():
        torch.testing.assert_close(value, network.state_dict()[key], rtol=1e-3, atol=1e-4)
    trained = {key.removeprefix("generator."): value for key, value in trained.items()}
    assert not any(torch.allclose(value, trained[key], rtol=1e-3, atol=1e-4) for key, value in saved.items())


def test_validation_uses_the_statistics_of_the_checkpoint(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Tensor]] = []
    validate = Validation.run

    def record(self: Validation, step: int) -> ValidationReport:
        state = self.predictor.generator.state_dict()
        seen.append({key: value.clone() for key, value in state.items() if "running_" in key})
        return validate(self, step)

    monkeypatch.setattr(Validation, "run", record)
    run(tiny_config, *AVERAGED, "log.images_every_steps=2", "checkpoint.every_steps=2", "checkpoint.best=l1")
    assert len(seen) == 2
    assert_equal([saved_statistics(tiny_config, step) for step in (2, 4)], seen)


def test_averages_do_not_affect_the_training(tiny_config: Path) -> None:
    """Noise, styles, the order of the samples and the network's own buffers are as without an average."""
    settings = [*STYLE, "generator.norm=batch", "generator.noise_channels=2"]
    settings += ["amp.opt_level=O2", "amp.dtype=bfloat16"]
    often = ["train.ema_decay=0.9", "log.images_every_steps=1", "checkpoint.every_steps=1"]
    run(tiny_config, *settings, "run.name=with", "train.max_steps=2", *often)
    run(tiny_config, *settings, "run.name=without", "train.max_steps=2")
    states = [checkpoint(tiny_config, 2, name) for name in ("with", "without")]
    for key in ("networks", "optimizers", "random_states", "samples_into_epoch"):
        assert_equal(states[0][key], states[1][key])


def test_samples_are_spread_over_the_split_and_shared_by_the_processes(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "wrap", lambda _, network: network)
    monkeypatch.setattr(World, "barrier", lambda _: None)
    monkeypatch.setattr(World, "gather", lambda _, value: [value])
    config = load_config(tiny_config, [*AVERAGED, "train.batch_size=2", "data.synthetic_samples=[200,2,3]"])
    places = []
    for rank in (0, 1):
        training = build_training(config, World(rank, 2, torch.device("cpu")))
        batches = read_statistics_batches(training.averages, training.dataset(), 2, training.world)
        assert [len(batch.names) for batch in batches] == [2] * 20
        places.append([[training.splits.train.names.index(name) for name in batch.names] for batch in batches])
    assert places[0][:2] == [[0, 2], [10, 12]]
    assert places[1][:2] == [[5, 7], [15, 17]]
    assert places[1][-1] == [195, 197]


def test_saving_does_not_need_the_data_set(tiny_config: Path, label_data_set: Path) -> None:
    settings = [*AVERAGED, "data.layout=paired_folders", f"data.root={label_data_set}", "data.n_classes=5"]
    training = built(tiny_config, *settings, "data.instance_edges=false", "data.workers=0")
    training.folder.mkdir(parents=True)
    with GracefulStop() as stop, open_loop(training, stop, Report([], 1), lambda *_: None) as loop:
        shutil.rmtree(label_data_set)
        training.loop.step = 1
        loop.checkpoints.save_with_retries(1)
    assert all(value.abs().max() > 0 for key, value in saved_statistics(tiny_config, 1).items() if "mean" in key)


def test_the_average_follows_the_weights_by_its_decay() -> None:
    network = nn.Conv2d(1, 1, 1, bias=False)
    average = WeightAverage(network, decay=0.9)
    expected, weights = None, torch.randn(5, generator=torch.Generator().manual_seed(0))
    for weight in weights:
        network.weight.data.fill_(weight)
        average.update_parameters(network)
        expected = weight if expected is None else 0.9 * expected + 0.1 * weight
    assert expected is not None
    torch.testing.assert_close(average.module.state_dict()["weight"].flatten()[0], expected)
    assert not any(parameter.requires_grad for parameter in average.parameters())
