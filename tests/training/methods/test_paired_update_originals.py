"""Three steps of the update reproduce the losses and weights of pix2pixHD's and pix2pix's training, float64."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from losses.adversarial import AdversarialLoss
from losses.objective import DiscriminatorObjective
from models.originals.weights import import_original
from tests.training.methods.test_paired_update import LSGAN, make_group, make_objective, make_paired_update, update_of
from utils.precision import Precision


def original(weights: dict[str, Tensor]) -> nn.Module:
    return import_original({name: weight.double() for name, weight in weights.items()}).network


@pytest.mark.parametrize(
    ("case_name", "adversarial", "loss_names"),
    [
        (
            "pix2pixhd_training",
            LSGAN,
            {"G_GAN": "G/adversarial", "G_GAN_Feat": "G/feature_matching", "D_fake": "D/fake", "D_real": "D/real"},
        ),
        (
            "pix2pix_training",
            AdversarialLoss("vanilla", "sum"),
            {"G_GAN": "G/adversarial", "G_L1": "G/l1", "D_fake": "D/fake", "D_real": "D/real"},
        ),
    ],
)
def test_three_steps_reproduce_the_originals_training(
    reference: dict[str, Any], case_name: str, adversarial: AdversarialLoss, loss_names: dict[str, str]
) -> None:
    case, is_hd = reference[case_name], case_name == "pix2pixhd_training"
    config = case["config"]
    generator, discriminator = original(case["generator_before"]), original(case["discriminator_before"])
    weights = {"adversarial": 1.0} | (
        {"feature_matching": config["lambda_feat"]} if is_hd else {"l1": config["lambda_l1"]}
    )
    precision = Precision("cpu", torch.float32, "O0")
    update = make_paired_update(
        make_group(generator, "generator", precision.make_scaler(), lr=config["lr"]),
        make_group(discriminator, "discriminator", precision.make_scaler(), lr=config["lr"]),
        DiscriminatorObjective(adversarial),
        objective=make_objective(weights, adversarial),
        precision=precision,
    )
    step = update.joint_update if is_hd else update.alternating_update
    for source, target, recorded in zip(case["source"], case["target"], case["losses"], strict=True):
        losses: dict[str, float] = {}
        update.means.add = lambda values, prefix, seen=losses: seen.update(  # type: ignore[method-assign,misc]
            {prefix.removeprefix("loss/") + name: value.item() for name, value in values.items()}
        )
        step(update_of([(source.double(), target.double())]))
        for name, value in recorded.items():
            ours = loss_names[name]
            weight = weights.get(ours.removeprefix("G/"), 1.0)
            assert losses[ours] * weight == pytest.approx(value, rel=1e-9), name
    for network, after in ((generator, "generator_after"), (discriminator, "discriminator_after")):
        torch.testing.assert_close(network.state_dict(), original(case[after]).state_dict(), rtol=1e-9, atol=1e-9)
    output = generator(case["source"][0].double())
    torch.testing.assert_close(output, case["output_after"], rtol=1e-9, atol=1e-9)
