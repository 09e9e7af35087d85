"""The perceptual losses: VGG19's with random weights, EfficientNet-Lite0's with the weights of its package."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.models import vgg19

from losses.objective import LossInputs, LossWeights
from losses.perceptual import LAYERS, PERCEPTUAL_LOSSES, EfficientNetLoss, VGG19Loss
from utils.pretrained import WeightsError


def test_features_are_those_of_torchvisions_layers(cached_vgg19: None, vgg19_weights: dict[str, Tensor]) -> None:
    with torch.device("meta"):
        layers = vgg19().features
    layers.load_state_dict({k.removeprefix("features."): v for k, v in vgg19_weights.items()}, assign=True)
    x = image = torch.randn(1, 3, 32, 32).clamp(-1, 1)
    expected = []
    with torch.no_grad():
        for number, layer in enumerate(layers[: LAYERS[-1] + 1]):
            x = layer(x)
            if number in LAYERS:
                expected.append(x.clone())
        torch.testing.assert_close(VGG19Loss(activation_checkpointing=False).features(image), expected)


def test_only_the_translated_image_gets_a_gradient(cached_vgg19: None) -> None:
    loss = VGG19Loss(activation_checkpointing=False)
    fake, target = (torch.randn(1, 3, 32, 32, requires_grad=True) for _ in range(2))
    loss(LossInputs(fake, target, target, discriminate_fake=list, discriminate_target=list)).backward()
    assert fake.grad is not None
    assert fake.grad.abs().sum() > 0
    assert target.grad is None
    assert all(parameter.grad is None for parameter in loss.parameters())
    assert loss(LossInputs(fake, fake, fake, discriminate_fake=list, discriminate_target=list)) == 0


def test_without_network_the_message_names_file_address_size_and_the_remedies(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(WeightsError) as error:
        VGG19Loss(activation_checkpointing=False)
    for part in ("vgg19-dcbb9e9d.pth", "548 MB", "https://", str(hub), "TORCH_HOME", "loss.perceptual=0"):
        assert part in str(error.value)


def test_weights_of_another_network_are_refused(hub: Path, vgg19_weights: dict[str, Tensor]) -> None:
    for weights in ({"conv.weight": torch.zeros(1)}, {"features.28.weight": vgg19_weights["features.28.weight"]}):
        torch.save(weights, hub / "vgg19-dcbb9e9d.pth")
        with pytest.raises(WeightsError, match=r"d\.pth: holds no features\.0\.weight of shape .* delete it"):
            VGG19Loss(activation_checkpointing=False)


def inputs(fake: Tensor, target: Tensor, weights: Tensor | None = None) -> LossInputs:
    of_pixels = LossWeights.of(weights, lambda moved: moved)
    return LossInputs(fake, target, target, discriminate_fake=list, discriminate_target=list, weights=of_pixels)


def test_efficientnet_lite0_finds_blur_and_ignores_pixels_of_weight_0() -> None:
    loss = EfficientNetLoss(activation_checkpointing=False)
    target = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    blurred = [F.avg_pool2d(target, side, 1, side // 2).requires_grad_() for side in (3, 9)]
    values = [loss(inputs(fake, target)) for fake in (target, *blurred)]
    assert values[0] == 0 < values[1] < values[2] < 4
    values[2].backward()
    assert blurred[1].grad is not None
    assert blurred[1].grad.isfinite().all()
    assert not any(parameter.requires_grad for parameter in loss.parameters())
    assert loss(inputs(blurred[0], target, torch.zeros(1, 1, 64, 64))) == 0
    torch.testing.assert_close(loss(inputs(blurred[0], target, torch.ones(1, 1, 64, 64))), values[1])


def test_the_gradient_has_no_grid_pattern_with_the_period_of_the_strides() -> None:
    """Four pixels of the images that EfficientNet-Lite0 sees are 16/7 pixels of the translation."""
    noise = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 2 - 1
    target = F.interpolate(noise, size=(64, 64), mode="bilinear")
    fake = F.avg_pool2d(target, 5, 1, 2).requires_grad_()
    EfficientNetLoss(activation_checkpointing=False)(inputs(fake, target)).backward()
    assert fake.grad is not None
    power = torch.fft.fft2(fake.grad.mean(dim=(0, 1))).abs().square()
    assert power[28, 28] < 0.1 * power.mean()  # 28 periods in 64 pixels


def test_efficientnet_lite0_computes_in_float32_under_autocast() -> None:
    loss = EfficientNetLoss(activation_checkpointing=True)
    fake, target = torch.rand(2, 1, 3, 32, 32).unbind()
    expected = loss(inputs(fake, target))
    with torch.autocast("cpu", torch.bfloat16):
        assert loss(inputs(fake, target)) == expected


@pytest.mark.parametrize("name", PERCEPTUAL_LOSSES)
def test_the_least_side_is_accepted(name: str, cached_vgg19: None) -> None:
    loss = PERCEPTUAL_LOSSES[name](activation_checkpointing=False)
    grey = torch.rand(1, 1, loss.least_side, 40)
    assert loss(inputs(grey, -grey)).isfinite()
