"""The bench's plain update computes the same as this project's, so that only time and memory differ."""

import torch

from bench.references import ReferenceUpdate
from tests.training.methods.test_paired_update import make_pair, make_update, update_of


def test_both_sides_of_the_bench_make_the_same_update() -> None:
    weights = {"adversarial": 1.0, "feature_matching": 10.0, "l1": 5.0}
    ours, plain = make_update(weights=weights), make_update(weights=weights)
    reference = ReferenceUpdate(plain.generator.module, plain.discriminator.module, vgg=None, l1=5.0)
    for _ in range(3):
        source, target = make_pair()
        reference.step(source, target)
        ours.joint_update(update_of([(source, target)]))
    for found, expected in ((ours.generator, plain.generator), (ours.discriminator, plain.discriminator)):
        torch.testing.assert_close(found.module.state_dict(), expected.module.state_dict(), rtol=1e-7, atol=1e-9)
