"""The bench's plain update computes the same as this project's, so that only time and memory differ."""

import torch

from bench.reference_update import ReferenceUpdate
from tests.training.test_update import make_pair, make_update, update_of


def test_both_sides_of_the_bench_make_the_same_update() -> None:
    weights = {"adversarial": 1.0, "feature_matching": 10.0, "l1": 5.0}
    ours, plain = make_update(weights=weights), make_update(weights=weights)
    reference = ReferenceUpdate(plain.generator.module, plain.discriminator.module, vgg=None, l1=5.0)
    for _ in range(3):
        source, target = make_pair()
        reference.step(source, target)
        ours.joint_update(update_of([(source, target)]))
    for name in ours.networks:
        found, expected = ours.networks[name].module.state_dict(), plain.networks[name].module.state_dict()
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
