"""The updates of CUT, FastCUT and CycleGAN reproduce the recorded trainings, float64, with the draws recorded there."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from configs.schema import ContrastiveConfig, CycleConfig
from losses import ADVERSARIAL_LOSSES
from losses.adversarial import LeastSquares
from losses.objective import DiscriminatorObjective
from models.originals.weights import import_original
from tests.losses.test_objective import logits_of
from tests.models.originals.cases import as_double, assert_close, by_original_names, digest
from tests.training.methods.updates import make_objective
from training.methods import contrastive
from training.methods.contrastive import Contrastive, TappedGenerator
from training.methods.cycle import Cycle, objectives_of
from training.methods.discriminator import TrainedDiscriminator
from training.methods.image_pool import ImagePool
from training.methods.method import Pair
from training.optimizer_group import OptimizerGroup, RunningMeans
from training.trained_network import Role, TrainedNetwork
from utils.device import Precision

LSGAN = LeastSquares()
OBJECTIVE = DiscriminatorObjective(LSGAN, {})
PRECISION = Precision("cpu", torch.float32, "O0")
ANTIALIASED = ["stem.0", "downs.0.0", "downs.1.0", "blocks.0", "blocks.4"]
STRIDED = ["stem.0", "downs.0.0", "downs.1.2", "blocks.2", "blocks.5"]  # the ReLU behind layer 8, a norm, is in place
GAN_MODES = {"lsgan": "lsgan", "vanilla": "vanilla", "wgangp": "wgan", "nonsaturating": "vanilla"}
CYCLE_NAMES = {"G_A": "adversarial_B", "G_B": "adversarial_A", "idt_A": "identity_B", "idt_B": "identity_A"}
CUT_NAMES = {"G_GAN": "G/adversarial", "D_real": "D/real", "D_fake": "D/fake", "G": "G/total"}
CUT_NAMES |= {"NCE": "G/contrastive", "NCE_Y": "G/identity"}


class Recorded(RunningMeans):
    """Keeps the latest values in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, float] = {}

    def add(self, values: Mapping[str, Tensor], prefix: str) -> None:
        self.values |= {prefix.removeprefix("loss/") + name: value.item() for name, value in values.items()}


class RecordedPool(ImagePool):
    """Takes its draws from a list: coin and place."""

    draws: Iterator[dict[str, Any]]

    def draw_place(self) -> int | None:
        draw = next(self.draws)
        return draw["index"] if draw["coin"] > 0.5 else None


def trained(case: dict[str, Any], name: str, role: Role, taps: Sequence[str] = ()) -> TrainedNetwork:
    chosen = {"biased_downs": bool(taps)}
    module = import_original(as_double(case[f"state_dict_{name}"]), chosen).network.train()

    def wrap(network: Any) -> nn.Module:
        return TappedGenerator(network, taps) if taps else network

    return TrainedNetwork(module, module, wrap, role)


def group(config: dict[str, Any], **networks: TrainedNetwork) -> OptimizerGroup:
    parameters = [parameter for network in networks.values() for parameter in network.parameters]
    adam = Adam(parameters, config["lr"], betas=(config["beta1"], 0.999), fused=True)
    return OptimizerGroup(networks, adam, PRECISION.make_scaler(), None)


def judge(
    trained: TrainedNetwork, means: RunningMeans, *, joint: bool, pool: ImagePool | None = None
) -> TrainedDiscriminator:
    return TrainedDiscriminator(trained, OBJECTIVE, sees_source=False, joint=joint, means=means, pool=pool)


def recorded_gradients(networks: Mapping[str, TrainedNetwork], *groups: OptimizerGroup) -> dict[str, dict[str, Tensor]]:
    """The gradients of each network in the first step of its group, by the original's names."""
    found: dict[str, dict[str, Tensor]] = {}

    def keep(*_: Any) -> None:
        for name, network in networks.items():
            gradients = {key: p.grad.clone() for key, p in network.module.named_parameters() if p.grad is not None}
            if name not in found and gradients:
                found[name] = by_original_names(network.module, gradients)

    for one in groups:
        one.optimizer.register_step_pre_hook(keep)
    return found


def assert_digests(
    ours: Mapping[str, Tensor], recorded: dict[str, Any], tolerance: float, *, but: Sequence[str] = ()
) -> None:
    """Compare tensors by the original's names. Norms cancel biases that only the original has."""
    expected = dict(zip(recorded["names"], recorded["values"], strict=True))
    assert ours.keys() <= expected.keys()
    assert all(name.endswith(("bias", "filt")) for name in expected.keys() - ours.keys())
    largest = recorded["values"].abs().max()
    for name in ours.keys() - set(but):
        assert (digest(ours[name]) - expected[name]).abs().max() <= tolerance * largest, name


def assert_weights(network: TrainedNetwork, recorded: dict[str, Any], gradients: dict[str, Any]) -> None:
    """Compare the weights after a training, except weights without gradient, which only rounding errors move."""
    norms = gradients["values"][:, 2]
    still = [name for name, norm in zip(gradients["names"], norms, strict=True) if norm <= 1e-10 * norms.max()]
    weights = by_original_names(network.module, dict(network.module.named_parameters()))
    assert_digests(weights, recorded, 1e-9, but=still)


def assert_losses(
    ours: Mapping[str, float], recorded: dict[str, Any], names: Mapping[str, str], tolerance: float
) -> None:
    for name, value in recorded.items():
        assert ours[names.get(name, name)] == pytest.approx(float(value), rel=tolerance), name


def pairs_of(case: dict[str, Any]) -> list[Pair]:
    return [Pair(batch["A"].double(), batch["B"].double()) for batch in case["batches"]]


@pytest.mark.parametrize("name", [f"{theirs}_{kind}" for theirs in GAN_MODES for kind in ("real", "fake")])
def test_adversarial_losses(reference: dict[str, Any], name: str) -> None:
    """Their nonsaturating loss has a value for each image, and is vanilla's in the mean."""
    recorded = reference["gan_losses"]["values"][name]
    logits, (theirs, kind) = reference["gan_losses"]["inputs"].double().requires_grad_(), name.split("_")
    loss, ours = ADVERSARIAL_LOSSES[GAN_MODES[theirs]](), logits_of(logits)
    values = [loss.discriminator_loss(ours, ours)[kind]]
    values += [loss.generator_loss(ours, ours)] if kind == "real" else []
    for value in values:
        assert_close(value, recorded["value"].mean())
        (gradient,) = torch.autograd.grad(value, logits)
        assert_close(gradient, recorded["gradient_of_mean"], 1e-10)


CUT_CASES = ["cut_training", "cut_training_batch", "cut_training_no_antialias"]


@pytest.mark.parametrize(
    ("name", "joint"), [*((name, True) for name in CUT_CASES), ("cut_training", False), ("fastcut_training", False)]
)
def test_contrastive(reference: dict[str, Any], name: str, joint: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """joint: Whether real and translated images share a pass, and the pass of the translations computes the keys."""
    case, means = reference[name], Recorded()
    config, taps = case["config"], STRIDED if name.endswith("no_antialias") else ANTIALIASED
    networks = {
        "G": trained(case, "G", "generator", taps),
        "D": trained(case, "D", "discriminator"),
        "F": trained(case, "F", "projection"),
    }
    groups = {
        "generator": group(config, generator=networks["G"], projection=networks["F"]),
        "discriminator": group(config, discriminator=networks["D"]),
    }
    method = Contrastive(
        translators={},
        generator=networks["G"],
        discriminator=judge(networks["D"], means, joint=joint),
        projection=networks["F"],
        optimizers=groups,
        contrastive=ContrastiveConfig(
            weight=config["lambda_NCE"], identity=config["nce_idt"], flip_equivariance=config["flip_equivariance"]
        ),
        taps=taps,
        objective=make_objective({"adversarial": config["lambda_GAN"]}, LSGAN),
        precision=PRECISION,
        discriminator_objective=OBJECTIVE,
        shares_encoder=joint,
        means=means,
    )
    gradients = recorded_gradients(networks, *groups.values())
    for step, (pair, losses, draws) in enumerate(zip(pairs_of(case), case["losses"], case["draws"], strict=True)):
        positions = iter([draws["patch_ids"], draws.get("patch_ids_identity")])
        monkeypatch.setattr(contrastive, "draw_positions", lambda *_, left=positions: next(left))
        coins = iter([draws.get("coin")])
        monkeypatch.setattr(contrastive, "draw_coin", lambda left=coins: next(left))
        method.update([[pair]])
        weighted = dict(means.values)
        for term in ("G/adversarial", "G/contrastive", "G/identity"):
            weight = config["lambda_GAN" if term == "G/adversarial" else "lambda_NCE"]
            weighted[term] = weight * weighted.get(term, 0.0)
        assert_losses(weighted, losses, CUT_NAMES, 1e-12 if step == 0 else 1e-9)
    for key, network in networks.items():
        first = case["gradient_digests_first_step"][key]
        assert_digests(gradients[key], first, 1e-10)
        assert_weights(network, case[f"digests_after_{key}"], first)
    translated = networks["G"].module.eval()(pairs_of(case)[0].source)
    assert_close(translated, case["output_afterwards"], 1e-9)


def cycle_of(case: dict[str, Any], means: RunningMeans) -> tuple[Cycle, dict[str, TrainedNetwork]]:
    """The update with pools that draw from lists, and its networks by the original's names."""
    config = case["config"]
    networks = {name: trained(case, name, "generator") for name in ("G_A", "G_B")}
    networks |= {name: trained(case, name, "discriminator") for name in ("D_A", "D_B")}
    pools = [RecordedPool(config["pool_size"]) if config["pool_size"] else None for _ in "AB"]
    method = Cycle(
        translators={},
        a_to_b=networks["G_A"],
        b_to_a=networks["G_B"],
        a=judge(networks["D_B"], means, joint=False, pool=pools[0]),
        b=judge(networks["D_A"], means, joint=False, pool=pools[1]),
        optimizers={
            "generators": group(config, generator_AtoB=networks["G_A"], generator_BtoA=networks["G_B"]),
            "discriminators": group(config, discriminator_A=networks["D_B"], discriminator_B=networks["D_A"]),
        },
        weights=CycleConfig([config["lambda_A"], config["lambda_B"]], config["lambda_identity"]),
        objectives=objectives_of(make_objective({"adversarial": 1.0}, LSGAN).losses),
        precision=PRECISION,
        discriminator_objective=OBJECTIVE,
        means=means,
    )
    method.a.tag, method.b.tag = "D_A", "D_B"
    return method, networks


def cycle_losses(values: Mapping[str, float], config: dict[str, Any]) -> dict[str, float]:
    """The losses with their weights, as the original reports them. Losses of direction A have the weight of A."""
    of_sides = {"A": config["lambda_A"], "B": config["lambda_B"]}
    weighted = {"G": values["G/total"], "D_A": values["D_B/total"], "D_B": values["D_A/total"]}
    for side, weight in of_sides.items():
        weighted[f"adversarial_{side}"] = values[f"G/adversarial_{side}"]
        weighted[f"cycle_{side}"] = weight * values[f"G/cycle_{side}"]
        identity = values.get(f"G/identity_{side}", 0.0)
        weighted[f"identity_{side}"] = config["lambda_identity"] * weight * identity
    return weighted


def test_losses_and_gradients_of_cycle(reference: dict[str, Any]) -> None:
    case, means = reference["cyclegan_losses"], Recorded()
    method, networks = cycle_of(case, means)
    gradients = recorded_gradients(networks, *method.optimizers.values())
    method.update([[Pair(case["inputs"]["A"].double(), case["inputs"]["B"].double())]])
    assert_losses(cycle_losses(means.values, case["config"]), case["losses"], CYCLE_NAMES, 1e-12)
    for name, recorded in case["gradient_digests"].items():
        assert_digests(gradients[name], recorded, 1e-10)


@pytest.mark.parametrize("name", ["cyclegan_training", "cyclegan_training_no_identity"])
def test_cycle(reference: dict[str, Any], name: str) -> None:
    case, means = reference[name], Recorded()
    method, networks = cycle_of(case, means)
    pools, config = {"fake_A": method.a.pool, "fake_B": method.b.pool}, case["config"]
    for step, (pair, losses, draws) in enumerate(zip(pairs_of(case), case["losses"], case["draws"], strict=True)):
        for of_pool in draws:
            if isinstance(pool := pools[of_pool["pool"]], RecordedPool):
                pool.draws = iter(of_pool["draws"])
        method.update([[pair]])
        assert_losses(cycle_losses(means.values, config), losses, CYCLE_NAMES, 1e-12 if step == 0 else 1e-9)
    for key, network in networks.items():
        weights = by_original_names(network.module, dict(network.module.named_parameters()))
        assert_digests(weights, case[f"digests_after_{key}"], 1e-9)
    first = pairs_of(case)[0]
    for key, images, translated in (("G_A", first.source, "fake_B"), ("G_B", first.target, "fake_A")):
        assert_close(networks[key].module.eval()(images), case["output_afterwards"][translated], 1e-9)
    for key, pool in pools.items():
        if pool:
            kept = torch.stack([digest(image) for _, image in pool.state_dict()])
            assert_close(kept, case["pools_after"][key], 1e-9)


def test_pool_of_cycle_draws_a_place_only_if_it_shows_an_earlier_image() -> None:
    torch.manual_seed(0)
    pool, coins = ImagePool(3, coin_first=True), torch.Generator().manual_seed(0)
    for _ in range(20):
        wants_one = torch.rand((), generator=coins) > 0.5
        expected = int(torch.randint(3, (), generator=coins)) if wants_one else None
        assert pool.draw_place() == expected
