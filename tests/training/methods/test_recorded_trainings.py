"""Steps of the updates reproduce recorded trainings of pix2pixHD, pix2pix, SPADE and OASIS, float64.

SPADE and OASIS step the generator first and then the discriminator on a new fake. That order is composed here of the
networks and losses. The joint update is the application's own.
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
from losses.adversarial import AdversarialLoss, Hinge, LeastSquares, Logits, Vanilla
from losses.distances import kl_divergence
from losses.objective import LossInputs
from losses.segmentation import SegmentationLoss, labelmix_loss, mask_of
from models.originals.weights import import_original
from models.patch_discriminator import DiscriminatorOutput
from models.style_encoder import StyleConditionedGenerator
from tests.losses.test_objective import match_features
from tests.models.originals.cases import (
    FixedNoise,
    Weights,
    as_double,
    assert_close,
    assert_digests,
    by_original_names,
    network_of,
    oasis_generator_of,
    unet_of,
    with_iteration,
)
from tests.training.methods.updates import Pair, make_group, make_paired
from training.methods.paired import ModelInputs, Paired
from training.trained_network import Role
from utils.device import Precision

TOLERANCE = 1e-9
HINGE = Hinge(over_scales="mean")
PRECISION = Precision("cpu", torch.float32, "O0")
Losses = dict[str, float]


def original(weights: Weights) -> nn.Module:
    return import_original(as_double(weights)).network


def stepped(adam: Adam, loss: Tensor) -> None:
    weights = [weight for group in adam.param_groups for weight in group["params"]]
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = gradient
    adam.step()


def losses_of(update: Paired, step: Callable[[list[ModelInputs]], object], pair: Pair) -> Losses:
    """Make a step and return the losses by their tags."""
    found: Losses = {}

    def add(values: Mapping[str, Tensor], prefix: str) -> None:
        found.update({prefix.removeprefix("loss/") + name: value.item() for name, value in values.items()})

    update.means.add = add  # type: ignore[method-assign]
    step([ModelInputs(*pair, generator_inputs=pair[:1])])
    return found


HD_NAMES = {"G_GAN": "G/adversarial", "G_GAN_Feat": "G/feature_matching", "D_fake": "D/fake", "D_real": "D/real"}
PIX2PIX_NAMES = {"G_GAN": "G/adversarial", "G_L1": "G/l1", "D_fake": "D/fake", "D_real": "D/real"}


@pytest.mark.parametrize(
    ("name", "adversarial", "names"),
    [("pix2pixhd_training", LeastSquares(), HD_NAMES), ("pix2pix_training", Vanilla(), PIX2PIX_NAMES)],
)
def test_pix2pix(reference: dict[str, Any], name: str, adversarial: AdversarialLoss, names: dict[str, str]) -> None:
    case, is_hd = reference[name], name == "pix2pixhd_training"
    config = case["config"]
    networks = {role: original(case[f"{role}_before"]) for role in ("generator", "discriminator")}
    weights = {"adversarial": 1.0} | (
        {"feature_matching": config["lambda_feat"]} if is_hd else {"l1": config["lambda_l1"]}
    )
    generator, discriminator = (
        make_group(networks[role], role, PRECISION.make_scaler(), lr=config["lr"])  # type: ignore[arg-type]
        for role in networks
    )
    update = make_paired(generator, discriminator, adversarial, weights, PRECISION)
    step = update.joint_update if is_hd else update.alternating_update
    for source, target, recorded in zip(case["source"], case["target"], case["losses"], strict=True):
        losses = losses_of(update, step, (source.double(), target.double()))
        ours = {theirs: losses[tag] * weights.get(tag.removeprefix("G/"), 1.0) for theirs, tag in names.items()}
        assert ours == pytest.approx({theirs: recorded[theirs] for theirs in names}, rel=1e-9)
    for role, network in networks.items():
        after = original(case[f"{role}_after"]).state_dict()
        torch.testing.assert_close(network.state_dict(), after, rtol=1e-9, atol=1e-9)
    output = networks["generator"](case["source"][0].double())
    torch.testing.assert_close(output, case["output_after"], rtol=1e-9, atol=1e-9)


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


@pytest.mark.parametrize("name", ["", "_batch", "_new_spectral_norm"])
def test_spade(reference: dict[str, Any], name: str) -> None:
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


def test_spade_with_a_style_encoder(reference: dict[str, Any]) -> None:
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
    gan = HINGE.generator_loss(Logits(lambda: fakes, source), Logits(lambda: reals, source))
    matching = 10 * match_features(fakes, reals)
    inputs = LossInputs(fake, target, source=source, discriminate_fake=list, discriminate_target=list, style=style)
    distance = case["config"]["lambda_kld"] * kl_divergence(inputs)
    stepped(adam_g, gan + matching + distance)
    with torch.no_grad():
        fake = generator(source, encoder(target).at(case["eps"][1].double()))
    fakes, reals = judged(discriminator, source, fake, target)
    terms = HINGE.discriminator_loss(Logits(lambda: reals, source), Logits(lambda: fakes, source))
    stepped(adam_d, 2 * terms["total"])
    losses = {"GAN": gan, "GAN_Feat": matching, "KLD": distance, "D_Fake": terms["fake"], "D_real": terms["real"]}
    for name, value in case["losses"][0].items():
        assert_close(losses[name], value, TOLERANCE)
    for key, trained in {"G": generator, "D": discriminator, "E": encoder}.items():
        state = by_original_names(trained, trained.state_dict())
        assert_digests(state, case[f"digests_after_{key}"], TOLERANCE)


def judged(discriminator: nn.Module, source: Tensor, fake: Tensor, real: Tensor) -> tuple[list[Any], list[Any]]:
    fakes, reals = zip(*(scale.chunk(2) for scale in discriminator(source, torch.cat([fake, real]))), strict=True)
    return list(fakes), list(reals)


@pytest.mark.parametrize("name", ["", "_new_spectral_norm"])
def test_the_joint_update_of_spade(reference: dict[str, Any], name: str) -> None:
    found = setting(reference, f"spade_training_kept_graph{name}")

    def group(module: nn.Module, role: Role, key: str) -> Any:
        return make_group(module, role, PRECISION.make_scaler(), adam=found.adam(module, key))

    groups = group(found.generator, "generator", "G"), group(found.discriminator, "discriminator", "D")
    update = make_paired(*groups, HINGE, {"adversarial": 1.0, "feature_matching": 10.0}, PRECISION)
    if found.case["config"]["discriminator_loss_factor"] == 1:  # ours is half of it
        backward = update.optimizers["discriminator"].backward
        update.optimizers["discriminator"].backward = (  # type: ignore[method-assign]
            lambda loss, *, retain_graph=False: backward(2 * loss, retain_graph=retain_graph)
        )
    losses = []
    for pair in found.batches:
        terms = losses_of(update, update.joint_update, pair)
        matching = 10 * terms["G/feature_matching"]
        of_networks = {"GAN": terms["G/adversarial"], "D_Fake": terms["D/fake"], "D_real": terms["D/real"]}
        losses.append(of_networks | {"GAN_Feat": matching})
    assert_trained(found, losses)


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


def test_oasis(reference: dict[str, Any]) -> None:
    case = reference["oasis_training"]
    config = case["config"]
    generator = oasis_generator_of(case["state_dict_G"], config).train()
    discriminator = unet_of({"state_dict": case["state_dict_D"], "config": config}).train()
    noise = generator.noise
    assert isinstance(noise, FixedNoise)
    adam_g, adam_d = (
        Adam(network.parameters(), config[f"learning_rate_{key}"], betas=tuple(config["betas"]), fused=True)
        for network, key in ((generator, "G"), (discriminator, "D"))
    )
    average, loss = original_state(generator, case), SegmentationLoss()

    def logits(scale: Tensor, labels: Tensor) -> Logits:
        return Logits(lambda: [DiscriminatorOutput([], scale)], labels)

    sources = []
    for batch, recorded in zip(case["batches"], case["losses"], strict=True):
        source, target = one_hot(batch["labels"], config["semantic_nc"]).double(), batch["image"].double()
        sources.append(source)
        labels = source.clone()
        labels[:, config["dont_care_channel"]] = 0
        noise.z = batch["z_of_G_step"]
        loss_g = loss.of_real(logits(discriminator(generator(source)), labels))
        stepped(adam_g, loss_g)
        noise.z = batch["z_of_D_step"]
        with torch.no_grad():
            fake = generator(source)
        mask = batch["labelmix_mask"] > 0
        ours = mask_of(source, torch.cat([batch["labelmix_draws"], torch.zeros(1)]) > 0)
        assert not (ours != mask)[batch["labels"] > 0].any()  # the original may draw again for class 0
        fakes, reals = discriminator(fake), discriminator(target)
        mixed = discriminator(torch.where(mask, target, fake))
        of_fake, of_real = loss.of_fake(fakes), loss.of_real(logits(reals, labels))
        labelmix = config["lambda_labelmix"] * labelmix_loss(mask, mixed=mixed, fake=fakes, real=reals)
        stepped(adam_d, of_fake + of_real + labelmix)
        losses = {"G": loss_g, "D_fake": of_fake, "D_real": of_real, "labelmix": labelmix}
        for name, value in losses.items():
            assert value.item() == pytest.approx(recorded[name].item(), rel=TOLERANCE), name
        decay = config["ema_decay"]
        average = {
            key: decay * average[key] + (1 - decay) * value for key, value in original_state(generator, case).items()
        }
    assert_digests(original_state(generator, case), case["digests_after_G"], TOLERANCE)
    assert_digests(average, case["digests_after_EMA"], TOLERANCE)
    state = by_original_names(discriminator, discriminator.state_dict())
    assert_digests(state, case["digests_after_D"], TOLERANCE)
    noise.z = case["batches"][0]["z_of_G_step"]
    assert_close(generator.eval()(sources[0])[..., ::2, ::2], case["output_afterwards"], TOLERANCE)


def original_state(generator: nn.Module, case: dict[str, Any]) -> Weights:
    """Tensors by the original's names, without counters, which the original does not update in one process."""
    state = by_original_names(generator, generator.state_dict(), as_double(case["state_dict_G"]))
    return {key: value.clone() for key, value in state.items() if not key.endswith("num_batches_tracked")}
