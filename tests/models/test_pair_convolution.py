import torch
import torch.nn.functional as F

from models.layers import PairConv2d
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.spectral_norm import add_spectral_norm


def test_it_is_the_convolution_of_source_and_image_concatenated() -> None:
    torch.manual_seed(0)
    convolution = PairConv2d(5, 4, kernel_size=4, stride=2, padding=2).double()
    source, images = torch.randn(2, 3, 9, 8).double(), torch.randn(6, 2, 9, 8).double().requires_grad_()
    joined = torch.cat([torch.cat([source] * 3), images], dim=1)
    expected = F.conv2d(joined, convolution.weight, convolution.bias, stride=2, padding=2)
    found = convolution(source, images)
    torch.testing.assert_close(found, expected)
    inputs = [images, *convolution.parameters()]
    weight = torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad((found * weight).sum(), inputs),
        torch.autograd.grad((expected * weight).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_images_of_one_source_are_scored_together_as_one_by_one() -> None:
    discriminator = MultiscalePatchDiscriminator(source_channels=2, base_channels=2).double()
    source, images = torch.randn(1, 2, 32, 32).double(), torch.randn(2, 3, 32, 32).double()
    alone = [discriminator(source, image[None]) for image in images]
    for level, joint in enumerate(discriminator(source, images)):
        for chunk, expected in zip(joint.chunk(2), alone, strict=True):
            torch.testing.assert_close(chunk.logits, expected[level].logits)


def test_a_pass_is_one_step_of_spectral_norms_iteration() -> None:
    torch.manual_seed(0)
    pair = add_spectral_norm(PairConv2d(3, 4, kernel_size=3))
    plain = add_spectral_norm(torch.nn.Conv2d(3, 4, kernel_size=3))
    plain.load_state_dict(pair.state_dict())
    source, image = torch.randn(1, 2, 8, 8), torch.randn(1, 1, 8, 8)
    torch.testing.assert_close(pair(source, image), plain(torch.cat([source, image], dim=1)))
    for ours, theirs in zip(pair.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
