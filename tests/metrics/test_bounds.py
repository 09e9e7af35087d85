import torch

from metrics.bounds import Bounds


def test_open_bounds_keep_what_is_outside_but_for_levels() -> None:
    image = torch.tensor([[[-10.0, 0.0, 5.0, 20.0]]])
    closed, unbounded = Bounds.of([0, 10]), Bounds.of([0, 10], are_closed=False)
    assert closed.shares(image).tolist() == [[[0, 0, 0.5, 1]]]
    assert unbounded.shares(image).tolist() == [[[-1, 0, 0.5, 2]]]
    for bounds in (closed, unbounded):
        assert bounds.levels(image)[0].tolist() == [[0, 0, 128, 255]]
