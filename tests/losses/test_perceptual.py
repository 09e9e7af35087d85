"""VGG19 with random weights: its layers are torchvision's, its values mean nothing."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torchvision.models import vgg19

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
    loss.distance(fake, target).backward()
    assert fake.grad is not None
    assert fake.grad.abs().sum() > 0
    assert target.grad is None
    assert all(parameter.grad is None for parameter in loss.parameters())
    assert loss.distance(fake, fake) == 0


def test_imagenet_normalization_is_torchvisions(vgg19_weights: dict[str, Tensor]) -> None:
    image = torch.rand(1, 3, 32, 32)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = VGG19Features(vgg19_weights)((image - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1))
    normalized = VGG19Features(vgg19_weights, imagenet_normalization=True)(2 * image - 1)
    torch.testing.assert_close(normalized, expected)


def test_weights_are_read_from_a_local_file(tmp_path: Path, vgg19_weights: dict[str, Tensor]) -> None:
    torch.save(vgg19_weights, tmp_path / "vgg19.pth")
    loaded = load_vgg19_weights(tmp_path / "vgg19.pth")
    assert torch.equal(loaded["features.28.weight"], vgg19_weights["features.28.weight"])


def test_without_network_the_message_names_file_address_size_and_both_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(WeightsError) as error:
        load_vgg19_weights(None)
    message = str(error.value)
    for part in ("vgg19-dcbb9e9d.pth", "548 MB", "https://", str(tmp_path), "loss.vgg_weights=", "loss.vgg=0"):
        assert part in message


@pytest.mark.parametrize(("content", "reason"), [(None, "no such file"), (b"junk", "cannot be read as weights")])
def test_an_unusable_local_file_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "vgg.pth"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WeightsError, match=f"vgg.pth: {reason}; expected vgg19-.* in loss.vgg_weights"):
        load_vgg19_weights(path)


def test_weights_of_another_network_are_refused(tmp_path: Path, vgg19_weights: dict[str, Tensor]) -> None:
    for weights in ({"conv.weight": torch.zeros(1)}, {"features.28.weight": vgg19_weights["features.28.weight"]}):
        torch.save(weights, tmp_path / "other.pth")
        with pytest.raises(WeightsError, match=r"other\.pth: holds no features\.0\.weight of shape \[64, 3, 3, 3\]"):
            load_vgg19_weights(tmp_path / "other.pth")


def test_a_damaged_file_in_the_cache_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    cached = tmp_path / "hub" / "checkpoints" / "vgg19-dcbb9e9d.pth"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"half a download")
    with pytest.raises(WeightsError, match=r"vgg19-dcbb9e9d\.pth: cannot be read as weights; delete it"):
        load_vgg19_weights(None)
