import pytest
import torch

from data.batch import Batch, DeviceTransfer


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_batch_reaches_a_busy_gpu_intact() -> None:
    device = torch.device("cuda")
    transfer = DeviceTransfer(device)
    busy = torch.randn(4096, 4096, device=device)
    for number in range(20):
        busy = (busy @ busy).clamp(-1, 1)
        maps = torch.full((1, 3, 512, 512), number, dtype=torch.uint8)
        batch = transfer(Batch((str(number),), maps, None, maps.clone()).pin_memory())
        assert batch.target is not None
        assert (batch.source.float().mean(), batch.target.float().mean()) == (number, number)


def test_a_batch_on_a_cpu_is_left_as_it_is() -> None:
    batch = Batch(("a",), torch.zeros(1, 3, 4, 4, dtype=torch.uint8), None, None)
    assert DeviceTransfer(torch.device("cpu"))(batch).source is batch.source
