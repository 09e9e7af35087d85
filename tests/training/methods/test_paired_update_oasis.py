"""Iterations of OASIS's training reproduce its losses, weights, buffers and pictures, float64; whole runs train.

The original steps the generator first and then the discriminator, on a new translation from new noise, in three passes.
That order is composed here of the networks and losses; the application's own orders are compared with plain passes.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from configs.load import load_config
from data.conditioning import one_hot
from losses import GENERATOR_LOSSES
from losses.objective import GeneratorObjective
from losses.segmentation import (
    SegmentationLoss,
    SegmentationObjective,
    draw_mask,
    labelmix_loss,
    mask_of,
)
from models.segmentation_discriminator import SegmentationDiscriminator
from tests.models.originals.cases import (
    FixedNoise,
    Weights,
    as_double,
    assert_close,
    assert_digests,
    by_original_names,
    oasis_generator_of,
    unet_of,
)
from tests.runs import OASIS, assert_resumes_exactly, checkpoint, run, with_slow
from tests.training.methods.test_paired_update import (
    BOTH_ORDERS,
    POLICY,
    Step,
    capture_gradients,
    make_group,
    make_scaler,
    make_update,
    record,
    reference_gradients,
    take_step,
    update_of,
)
from training.methods.judge import Judge
from training.methods.paired import Paired, build_paired
from utils.distributed import World
from utils.errors import UserError

TOLERANCE = 1e-9
LOSS = SegmentationLoss()


def stepped(adam: Adam, loss: Tensor) -> None:
    weights = [weight for group in adam.param_groups for weight in group["params"]]
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = gradient
    adam.step()


def test_the_generator_first(reference: dict[str, Any]) -> None:
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
    average = original_state(generator, case)
    sources = []
    for batch, recorded in zip(case["batches"], case["losses"], strict=True):
        source, target = one_hot(batch["labels"], config["semantic_nc"]).double(), batch["image"].double()
        sources.append(source)
        labels = source.clone()
        labels[:, config["dont_care_channel"]] = 0
        noise.z = batch["z_of_G_step"]
        loss_g = LOSS.real(discriminator(generator(source)), labels)
        stepped(adam_g, loss_g)
        noise.z = batch["z_of_D_step"]
        with torch.no_grad():
            fake = generator(source)
        mask = batch["labelmix_mask"] > 0
        ours = mask_of(source, torch.cat([batch["labelmix_draws"], torch.zeros(1)]) > 0)
        assert not (ours != mask)[batch["labels"] > 0].any()  # the original may draw again for class 0
        fakes, reals = discriminator(fake), discriminator(target)
        mixed = discriminator(torch.where(mask, target, fake))
        of_fake, of_real = LOSS.fake(fakes), LOSS.real(reals, labels)
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
    """Tensors by the original's names, but for counters, which it does not count in one process."""
    state = by_original_names(generator, generator.state_dict(), as_double(case["state_dict_G"]))
    return {key: value.clone() for key, value in state.items() if not key.endswith("num_batches_tracked")}


def make_oasis_update(*, labelmix: float = 10.0) -> Paired:
    """An update whose sources are three channels of labels, and images of which OASIS's discriminator judges."""
    update = make_update()
    torch.manual_seed(0)
    discriminator = SegmentationDiscriminator(n_classes=2, base_channels=4, n_downsamplings=3).double()
    group = make_group(discriminator, "discriminator", make_scaler(update.precision))
    objective = SegmentationObjective(LOSS, labelmix)
    update.discriminator = Judge(group.networks["discriminator"], objective, joint=True, means=update.means)
    update.optimizers = {**update.optimizers, "discriminator": group}
    losses = {
        "adversarial": GENERATOR_LOSSES["adversarial"](gan_mode="segmentation", over_scales="sum"),
        "l1": GENERATOR_LOSSES["l1"](),
    }
    update.objective = GeneratorObjective(losses, {"adversarial": 1.0, "l1": 5.0})
    return update


def make_pair() -> tuple[Tensor, Tensor]:
    """One-hot labels of two classes with pixels of neither, edges; images."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, (2, 1, 8, 8), generator=generator).repeat_interleave(4, 2).repeat_interleave(4, 3)
    edges = torch.randint(2, (2, 1, 32, 32), generator=generator)
    target = torch.rand(2, 3, 32, 32, generator=generator, dtype=torch.float64) * 2 - 1
    return torch.cat([one_hot(ids, 2), edges], dim=1).double(), target


@pytest.mark.parametrize("is_augmented", [False, True])
@BOTH_ORDERS
def test_both_orders_give_the_gradients_of_plain_passes(
    step: Step, is_augmented: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks: list[Tensor] = []

    def recorded_mask(labels: Tensor) -> Tensor:
        masks.append(draw_mask(labels))
        return masks[-1]

    monkeypatch.setattr("losses.segmentation.draw_mask", recorded_mask)
    update, reference = make_oasis_update(), make_oasis_update()
    recorded = record(update, POLICY if is_augmented else ())
    source, target = make_pair()
    d_gradients, g_gradients = (
        capture_gradients(update.optimizers["discriminator"]),
        capture_gradients(update.optimizers["generator"]),
    )
    step(update, update_of([(source, target)]))

    generator, discriminator = reference.generator.module, reference.discriminator.trained.module.unet
    assert isinstance(discriminator, nn.Module)
    fake = generator(source)
    seen, (mask,) = recorded.transforms[0], masks
    fakes, reals = discriminator(seen.of_image(fake.detach())), discriminator(seen.of_image(target))
    mixed = discriminator(torch.where(mask, seen.of_image(target), seen.of_image(fake.detach())))
    labels = seen.of_source(source)[:, :2]
    terms = LOSS.fake(fakes), LOSS.real(reals, labels), labelmix_loss(mask, mixed=mixed, fake=fakes, real=reals)
    expected_d = reference_gradients(discriminator, 0.5 * (terms[0] + terms[1] + 10 * terms[2]))
    if step is Paired.alternating_update:
        take_step(reference, {f"unet.{name}": gradient for name, gradient in expected_d.items()})
    seen = recorded.transforms[-1]
    labels = seen.of_source(source)[:, :2]
    g_loss = LOSS.real(discriminator(seen.of_image(fake)), labels) + 5 * (fake - target).abs().mean()
    expected_g = reference_gradients(generator, g_loss)
    expected_d = {f"unet.{name}": gradient for name, gradient in expected_d.items()}
    torch.testing.assert_close(d_gradients, expected_d, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(g_gradients, expected_g, rtol=1e-9, atol=1e-12)


def test_without_labelmix_nothing_is_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("losses.segmentation.draw_mask")
    update = make_oasis_update(labelmix=0.0)
    update.joint_update(update_of([make_pair()]))


def test_the_configuration_makes_this_update(tiny_config: Path) -> None:
    update = build_paired(load_config(tiny_config, OASIS), World(0, 1, torch.device("cpu")))
    assert isinstance(update.discriminator.trained.module, SegmentationDiscriminator)
    assert update.discriminator.objective == SegmentationObjective(SegmentationLoss(class_balance=True), 10.0)


@pytest.mark.parametrize("retain_graph", with_slow(["true"], ["false"]))
@pytest.mark.parametrize(
    "precision", with_slow([["amp.opt_level=O1", "amp.dtype=bfloat16"]], [["amp.opt_level=O0"]]), ids=" ".join
)
def test_runs_train_and_resume_exactly(tiny_config: Path, precision: list[str], retain_graph: str) -> None:
    settings = [*OASIS, *precision, f"train.retain_graph={retain_graph}", "train.ema_decay=0.9"]
    settings += ["augmentation.policy=[color,translation]"]
    assert_resumes_exactly(tiny_config, *settings, stop=2, end=4)
    trained = checkpoint(tiny_config, 4)
    for name in ("generator", "discriminator"):
        assert trained["optimizers"][name]["skipped_steps"] == 0
        assert all(state["step"] == 4 for state in trained["optimizers"][name]["moments"][name].values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["discriminator.name=segmentation"], "loss.gan_mode is lsgan, expected segmentation"),
        (["loss.gan_mode=segmentation"], "discriminator.name is multiscale_patch, expected segmentation"),
        ([*OASIS, "loss.feature_matching=1"], "loss.feature_matching is 1.0, expected 0"),
        ([*OASIS, "loss.r1=1"], "loss.r1 is 1.0, expected 0"),
        ([*OASIS, "train.pool_size=2"], "train.pool_size is 2, expected 0 with loss.labelmix"),
        ([*OASIS, "augmentation.policy=[color,cutout]"], "augmentation.policy is .* expected a list without cutout"),
        ([*OASIS, "data.layout=paired_folders", "data.root=."], "data.n_classes is 0, expected above 0"),
        ([*OASIS, "discriminator.n_downsamplings=6"], "discriminator.n_downsamplings=6 needs sides of at least 64"),
        ([*OASIS, "generator.n_upsamplings=6"], "generator.n_upsamplings is 6, expected at most 5"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tiny_config: Path, settings: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(tiny_config, *settings)
