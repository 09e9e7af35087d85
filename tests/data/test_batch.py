from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch import Tensor

from data.batch import MAPS, Batch, DataError, DeviceTransfer, Sample, weights_to_float
from tests.runs import assert_equal


def sample(name: str, source: Tensor | None = None, **maps: Tensor) -> Sample:
    partners: dict[str, Any] = dict.fromkeys(("instances", "target")) | maps
    return Sample(name, source=torch.zeros(3, 8, 8, dtype=torch.uint8) if source is None else source, **partners)


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (torch.zeros(3, 8, 8), r"train\.batch_size=1"),
        (torch.zeros(3, 8, 16, dtype=torch.uint8), r"\(a 8x8, b 16x8\): choose a data\.preprocess"),
    ],
)
def test_sources_that_differ_do_not_fit_one_batch(second: Tensor, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        Batch.of([sample("a"), sample("b", second)])


@pytest.mark.parametrize("kind", [kind for kind in MAPS if kind != "source"])
def test_no_map_of_a_batch_is_dropped_because_one_sample_lacks_it(kind: str) -> None:
    complete = sample("b", **{kind: torch.zeros(1, 8, 8, dtype=torch.uint8)})
    with pytest.raises(AssertionError, match=f"a layout reads {kind} for some samples"):
        Batch.of([sample("a"), complete])
    batch = Batch.of([complete, complete])
    assert getattr(batch, kind).shape == (2, 1, 8, 8)
    assert len(batch.maps) == 2


def test_weights_of_several_types_become_floats() -> None:
    of_bytes, of_floats = torch.full((1, 8, 8), 51, dtype=torch.uint8), torch.full((1, 8, 8), 7.5)
    weights = Batch.of([sample("a", weights=of_bytes), sample("b", weights=of_floats)]).weights
    assert weights is not None
    torch.testing.assert_close(weights[:, 0, 0, 0], torch.tensor([0.2, 7.5]))
    assert weights_to_float(torch.tensor([0, 65535], dtype=torch.uint16)).tolist() == [0, 1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_batch_reaches_a_busy_gpu_intact() -> None:
    device = torch.device("cuda")
    transfer = DeviceTransfer(device)
    busy = torch.randn(4096, 4096, device=device)
    for number in range(20):
        busy = (busy @ busy).clamp(-1, 1)
        maps = torch.full((1, 3, 512, 512), number, dtype=torch.uint8)
        batch = transfer(Batch((str(number),), source=maps, target=maps.clone()).pin_memory())
        assert (batch.source.float().mean(), batch.maps["target"].float().mean()) == (number, number)


def test_a_batch_arrives_in_another_process_with_its_types() -> None:
    generator = torch.Generator().manual_seed(0)
    types = (torch.uint8, torch.int32, torch.int16, torch.float32, torch.uint16)
    maps: dict[str, Any] = {
        name: torch.randint(250, (2, 1, 3, 5), dtype=torch.int32, generator=generator).expand(2, 3, 3, 5).to(dtype)
        for name, dtype in zip(MAPS, types, strict=False)  # without source_images and labels
    }
    batch = Batch(("a", "b"), **maps)
    received = ForkingPickler.loads(ForkingPickler.dumps(batch))
    assert_equal(vars(received), vars(batch))
    received.source.zero_()
    assert not received.source.is_shared()
