"""Iterations of SPADE's training reproduce its losses, weights, buffers and pictures, float64.

The original steps the generator first and then the discriminator on a new fake, which is the bench's plain update. The
joint update is the application's own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from bench.references import ReferenceSpadeUpdate
from data.conditioning import instance_edges, one_hot
from losses.adversarial import AdversarialLoss
from losses.distances import kl_divergence
from losses.objective import DiscriminatorObjective, LossInputs
from models.style_encoder import StyleConditionedGenerator
from tests.losses.test_objective import match_features
from tests.models.originals.cases import (
    Weights,
    as_double,
    assert_close,
    assert_digests,
    by_original_names,
    network_of,
    with_iteration,
)
from tests.training.methods.test_paired_update import make_group, make_objective, make_paired_update
from tests.training.methods.test_paired_update_oasis import stepped
from training.methods.paired import ModelInputs
from training.optimizer_group import OptimizerGroup
from training.trained_network import Role
from utils.precision import Precision

TOLERANCE = 1e-9
HINGE = AdversarialLoss("hinge", "mean")
Losses = dict[str, float]


@dataclass
class Setting:
    """The networks and batches of a case; weights: the original generator's."""

    case: dict[str, Any]
    generator: nn.Module
    discriminator: nn.Module
    weights: Weights
    batches: list[tuple[Tensor, Tensor]]

    def adam(self, network: nn.Module, key: str) -> Adam:
        config = self.case["config"]
        betas = (config["beta1"], config["beta2"])
        return Adam(network.parameters(), config[f"learning_rate_{key}"], betas=betas, fused=True)


def setting(reference: dict[str, Any], name: str) -> Setting:
    case, base = reference[name], reference["spade_training"]
    config = case["config"]
    weights = as_double(case.get("state_dict_G", base["state_dict_G"]) | case.get("extra_state_dict_G", {}))
    generator = network_of(dict(weights), config).train()
    discriminator = network_of(as_double(base["state_dict_D"]), config).train()
    iteration = "v_first" if "old" in config["spectral_norm"] else "u_first"
    for network in (generator, discriminator):
        with_iteration(network, iteration)  # type: ignore[arg-type]
    return Setting(case, generator, discriminator, weights, list(batches_of(base)))


def batches_of(case: dict[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """The conditions, with a class for pixels that do not count and the edges of instances, and the images."""
    for batch in case["batches"]:
        labels = one_hot(batch["labels"], case["config"]["label_nc"] + 1)
        edges = instance_edges(batch["instances"])
        yield torch.cat([labels, edges], dim=1).double(), batch["image"].double()


def test_the_condition_is_the_originals(reference: dict[str, Any]) -> None:
    case = reference["spade_training"]
    source, _ = next(batches_of(case))
    assert torch.equal(source, case["semantics_of_first_batch"].double())


@pytest.mark.parametrize("name", ["", "_batch", "_new_spectral_norm"])
def test_the_generator_first(reference: dict[str, Any], name: str) -> None:
    found = setting(reference, f"spade_training{name}")
    config = found.case["config"]
    update = ReferenceSpadeUpdate(
        found.generator,
        found.discriminator,
        vgg=None,
        learning_rates=(config["learning_rate_G"], config["learning_rate_D"]),
        betas=(config["beta1"], config["beta2"]),
    )
    steps = [update.step(source, target) for source, target in found.batches]
    assert_trained(found, [{key: value.item() for key, value in losses.items()} for losses in steps])


def test_the_generator_first_with_a_style_encoder(reference: dict[str, Any]) -> None:
    """The encoder is trained with the generator; the discriminator's step draws styles of its own."""
    found = setting(reference, "spade_training_vae")
    case = found.case
    encoder = network_of(as_double(reference["spade_encoder"]["state_dict"]), case["config"]).train()
    generator, discriminator = found.generator, found.discriminator
    network = StyleConditionedGenerator(generator, encoder)  # type: ignore[arg-type]
    adam_g, adam_d = found.adam(network, "G"), found.adam(discriminator, "D")
    (source, target), *_ = found.batches
    style = encoder(target)
    fake = generator(source, style.at(case["eps"][0].double()))
    fakes, reals = judged(discriminator, source, fake, target)
    gan = HINGE.generator([scale.logits for scale in fakes])
    matching = 10 * match_features(fakes, reals)
    inputs = LossInputs(fake, target, source=source, discriminate_fake=list, discriminate_target=list, style=style)
    distance = case["config"]["lambda_kld"] * kl_divergence(inputs)
    stepped(adam_g, gan + matching + distance)
    with torch.no_grad():
        fake = generator(source, encoder(target).at(case["eps"][1].double()))
    fakes, reals = judged(discriminator, source, fake, target)
    of_fake = HINGE.discriminator([scale.logits for scale in fakes], is_real=False)
    of_real = HINGE.discriminator([scale.logits for scale in reals], is_real=True)
    stepped(adam_d, of_fake + of_real)
    losses = {"GAN": gan, "GAN_Feat": matching, "KLD": distance, "D_Fake": of_fake, "D_real": of_real}
    for name, value in case["losses"][0].items():
        assert_close(losses[name], value, TOLERANCE)
    for key, trained in {"G": generator, "D": discriminator, "E": encoder}.items():
        state = by_original_names(trained, trained.state_dict())
        assert_digests(state, case[f"digests_after_{key}"], TOLERANCE)


def judged(discriminator: nn.Module, source: Tensor, fake: Tensor, real: Tensor) -> tuple[list[Any], list[Any]]:
    fakes, reals = zip(*(scale.chunk(2) for scale in discriminator(source, torch.cat([fake, real]))), strict=True)
    return list(fakes), list(reals)


@pytest.mark.parametrize("name", ["", "_new_spectral_norm"])
def test_the_joint_update(reference: dict[str, Any], name: str) -> None:
    found = setting(reference, f"spade_training_kept_graph{name}")
    precision = Precision("cpu", torch.float32, "O0")

    def group(module: nn.Module, role: Role, key: str) -> OptimizerGroup:
        return make_group(module, role, precision.make_scaler(), adam=found.adam(module, key))

    update = make_paired_update(
        group(found.generator, "generator", "G"),
        group(found.discriminator, "discriminator", "D"),
        DiscriminatorObjective(HINGE),
        objective=make_objective({"adversarial": 1.0, "feature_matching": 10.0}, HINGE),
        precision=precision,
    )
    if found.case["config"]["discriminator_loss_factor"] == 1:  # ours is half of it
        backward = update.optimizers["discriminator"].backward
        update.optimizers["discriminator"].backward = (  # type: ignore[method-assign]
            lambda loss, *, retain_graph=False: backward(2 * loss, retain_graph=retain_graph)
        )
    losses = []
    for source, target in found.batches:
        terms: Losses = {}
        update.means.add = recorder(terms)  # type: ignore[method-assign,assignment]
        update.joint_update([ModelInputs(source, target, generator_inputs=(source,))])
        losses.append(
            {
                "GAN": terms["loss/G/adversarial"],
                "GAN_Feat": 10 * terms["loss/G/feature_matching"],
                "D_Fake": terms["loss/D/fake"],
                "D_real": terms["loss/D/real"],
            }
        )
    assert_trained(found, losses)


def recorder(into: Losses) -> Callable[[Mapping[str, Tensor], str], None]:
    return lambda values, prefix: into.update({prefix + name: value.item() for name, value in values.items()})


def assert_trained(found: Setting, losses: list[Losses]) -> None:
    case = found.case
    for of_step, recorded in zip(losses, case["losses"], strict=True):
        assert of_step == pytest.approx({key: value.item() for key, value in recorded.items()}, rel=TOLERANCE)
    state = by_original_names(found.generator, found.generator.state_dict(), found.weights)
    assert_digests(state, case["digests_after_G"], TOLERANCE)
    for key, value in case.get("running_statistics_after", {}).items():
        assert_close(state[key].double(), value.double(), TOLERANCE)
    state = by_original_names(found.discriminator, found.discriminator.state_dict())
    assert_digests(state, case["digests_after_D"], TOLERANCE)
    for key, value in case.get("state_after_D", {}).items():
        assert_close(state[key], value, TOLERANCE)
    step = 1 if "output_afterwards[..., ::2, ::2]" not in case["note"] else 2
    output = found.generator.eval()(found.batches[0][0])
    assert_close(output[..., ::step, ::step], case["output_afterwards"], TOLERANCE)
