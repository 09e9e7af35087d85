"""The perceptual loss with random weights in VGG19's layers."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torchvision.models import vgg19

from losses.objective import LossInputs
from losses.perceptual import LAYERS, PerceptualLoss, VGG19Features, load_vgg19_weights
from utils.pretrained import WeightsError


def test_features_are_those_of_torchvisions_layers(vgg19_weights: dict[str, Tensor]) -> None:
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
        torch.testing.assert_close(VGG19Features(vgg19_weights)(image), expected)


def test_only_the_translated_image_gets_a_gradient(vgg19_weights: dict[str, Tensor]) -> None:
    loss = PerceptualLoss(VGG19Features(vgg19_weights))
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
        load_vgg19_weights()
    for part in ("vgg19-dcbb9e9d.pth", "548 MB", "https://", str(hub), "TORCH_HOME", "loss.perceptual=0"):
        assert part in str(error.value)


def test_weights_of_another_network_are_refused(hub: Path, vgg19_weights: dict[str, Tensor]) -> None:
    for weights in ({"conv.weight": torch.zeros(1)}, {"features.28.weight": vgg19_weights["features.28.weight"]}):
        torch.save(weights, hub / "vgg19-dcbb9e9d.pth")
        with pytest.raises(WeightsError, match=r"d\.pth: holds no features\.0\.weight of shape .* delete it"):
            load_vgg19_weights()
