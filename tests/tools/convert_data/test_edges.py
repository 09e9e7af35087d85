import pytest
import torch

from tools.convert_data.edges import draw_edges


def test_edges_are_thin_black_lines_where_brightness_changes() -> None:
    photo = torch.full((3, 40, 60), 60, dtype=torch.uint8)
    photo[:, 10:30, 20:40] = 200
    lines = draw_edges(photo, sigma=1.0)
    assert lines.shape == photo.shape
    assert lines.unique().tolist() == [0, 255]
    black = lines[0] == 0
    assert black[20].nonzero()[:, 0].tolist() == pytest.approx([20, 40], abs=1)  # one pixel on each side
    assert black[:, 30].nonzero()[:, 0].tolist() == pytest.approx([10, 30], abs=1)
    assert not black[:, :17].any()
    assert 60 <= int(black.sum()) <= 100  # the square is 20 pixels wide and high


def test_noise_and_flat_images_give_no_lines() -> None:
    flat = torch.full((3, 64, 64), 128, dtype=torch.uint8)
    assert (draw_edges(flat, sigma=1.0) == 255).all()
    noise = flat + torch.randint(0, 6, (3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert (draw_edges(noise, sigma=1.0) == 255).all()


def test_a_line_goes_on_where_it_fades_and_none_begins_there() -> None:
    contrast = torch.cat([torch.full((30,), 40), torch.linspace(40, 9, 10), torch.full((40,), 9)]).to(torch.uint8)
    photo = torch.full((3, 80, 80), 60, dtype=torch.uint8)
    photo[:, 20:] += contrast
    black = draw_edges(photo, sigma=1.0)[0] == 0
    assert black[18:22].any(dim=0).all()
    photo[:, 20:] = 60 + 9  # this contrast is too weak to begin a line
    assert (draw_edges(photo, sigma=1.0) == 255).all()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 50), (3, 2)])
def test_edges_of_tiny_images(height: int, width: int) -> None:
    photo = torch.randint(0, 256, (3, height, width), dtype=torch.uint8)
    assert draw_edges(photo, sigma=3.0).shape == (3, height, width)
