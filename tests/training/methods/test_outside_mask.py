"""The loss that keeps translations equal to their sources outside of the classes that may change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from configs.load import config_from_dict
from configs.schema import Config
from configs.splits import open_split, open_splits
from data.batch import Batch
from data.layout import PairingError
from losses.distances import outside_mask
from losses.objective import LossInputs
from tests.conftest import save_image
from training.methods import METHODS
from training.methods.contrastive import Contrastive, build_contrastive
from training.methods.cycle import build_cycle
from utils.distributed import World

COMMON: dict[str, Any] = {
    "data": {"layout": "unpaired_folders", "root": "x", "instance_edges": False},
    "loss": {"outside_mask": 10, "class_weights": {"7": 0, "9": 0.5}},
    "generator": {"base_channels": 4, "n_downsamplings": 2, "n_blocks": 2},
    "discriminator": {"base_channels": 4, "n_scales": 1, "n_layers": 1},
}
ALONE = World(rank=0, size=1, device=torch.device("cpu"))


def config(method: str, *settings: str) -> Config:
    patches = ["contrastive.n_patches=16"] if method == "contrastive" else []
    return config_from_dict(COMMON | {"method": {"name": method}}, "", [*patches, *settings])


def batch(labels: list[list[int]], side: int = 32) -> Batch:
    """Images with one label in each quarter."""
    ids = torch.tensor(labels, dtype=torch.int32).repeat_interleave(side // 2, 0).repeat_interleave(side // 2, 1)
    torch.manual_seed(0)
    source, target = torch.randint(0, 256, (2, 1, 3, side, side), dtype=torch.uint8)
    return Batch(("x",), source=source, target=target, labels=ids[None, None])


def test_value_and_gradient_by_hand() -> None:
    pair = build_cycle(config("cycle"), ALONE).inputs(batch([[7, 9], [255, 0]], side=2))
    distances = torch.tensor([[[[3.0, 2.0], [0.5, 0.25]]]])
    fake = (pair.source + distances).requires_grad_()
    loss = outside_mask(LossInputs(fake, pair.target, pair.source, list, list, outside=pair.outside))
    loss.backward()
    assert loss.item() == pytest.approx((0.5 * 2 + 0.5 + 0.25) / (0.5 + 1 + 1))
    assert fake.grad is not None
    torch.testing.assert_close(fake.grad[0, 0] * 3, torch.tensor([[0.0, 0.2], [0.4, 0.4]]))


def test_only_training_needs_label_maps_and_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    for folder in ("train_A", "train_B", "val_A", "val_B"):
        save_image(tmp_path / folder / "x.png", np.zeros((32, 32, 3), np.uint8))
    chosen = config("cycle", f"data.root={tmp_path}")
    with pytest.raises(PairingError, match=r"train_A_label.*loss\.outside_mask=0") as raised:
        open_splits(chosen)
    assert len(raised.value.args) == 1
    open_split(chosen, "train", needs_targets=True)
    save_image(tmp_path / "train_A_label" / "x.png", np.full((32, 32), 9, np.uint8))
    splits = open_splits(chosen)
    labels = splits.train.read(0).labels
    assert labels is not None
    assert labels.unique().tolist() == [9]
    assert splits.validation.read(0).labels is None


@pytest.mark.parametrize("method", ["contrastive", "cycle"])
def test_the_loss_of_a_step_has_the_term_with_its_weight(method: str) -> None:
    one = batch([[7, 9], [255, 0]])
    totals, terms = [], []
    for weight in (10, 30):
        trained = METHODS[method](config(method, f"loss.outside_mask={weight}"), ALONE)
        torch.manual_seed(1)
        trained.step([[one]])
        means = trained.means.flush(ALONE)
        terms.append(means["loss/G/outside_mask"])
        totals.append(means["loss/G/total"])
    assert terms[0] == terms[1] > 0
    assert totals[1] - totals[0] == pytest.approx(20 * terms[0], rel=1e-4)


def test_translations_of_mirrored_sources_are_compared_with_mirrored_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = config("contrastive", "contrastive.identity=false", "contrastive.flip_equivariance=true")
    trained = build_contrastive(chosen, ALONE)
    pair = trained.inputs(batch([[7, 9], [255, 0]]))

    class Same(torch.nn.Module):
        def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
            return images, []

    monkeypatch.setattr(trained.generator, "network", Same())
    monkeypatch.setattr(Contrastive, "_contrastive_loss", lambda *_: torch.zeros(()))
    monkeypatch.setattr(Contrastive, "_encode", lambda *_: [])
    parts: Any = trained  # a step would draw the coin
    for flipped in (False, True):
        made = parts._translate(pair.source, flipped)
        assert torch.equal(made.fake, pair.source.flip(-1) if flipped else pair.source)
        assert parts._source_terms(pair, made)["outside_mask"] == 0
