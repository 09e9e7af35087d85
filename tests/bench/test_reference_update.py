"""The bench's plain update computes the same as this project's, so that only time and memory differ."""

import torch

from bench.reference_update import ReferenceUpdate
from tests.test_adversarial_step import make_game, make_pair
from training.update import AdversarialUpdate


def test_both_sides_of_the_bench_make_the_same_update() -> None:
    weights = {"adversarial": 1.0, "feature_matching": 10.0, "l1": 5.0}
    ours, plain = make_game(weights=weights), make_game(weights=weights)
    reference = ReferenceUpdate(plain.generator.module, plain.discriminator.module, vgg=None, l1=5.0)
    for _ in range(3):
        source, target = make_pair()
        reference.step(source, target)
        AdversarialUpdate.joint_update(ours, [(source, target)])  # type: ignore[list-item]
    for name in ours.players:
        found, expected = ours.players[name].module.state_dict(), plain.players[name].module.state_dict()
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
