"""A batch arrives in another process as it was."""

import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch

from data.batch import HAS_MEMORY_FILES, Batch
from data.sent_batch import SentBatch
from tests.runs import assert_equal


@pytest.mark.skipif(not HAS_MEMORY_FILES, reason="batches are sent in shared memory")
def test_a_batch_arrives_with_its_types_and_leaves_no_file_open() -> None:
    generator = torch.Generator().manual_seed(0)
    types = (torch.uint8, torch.int32, torch.int16, torch.float32, torch.uint16)
    maps = [
        torch.randint(250, (2, 1, 3, 5), dtype=torch.int32, generator=generator).expand(2, 3, 3, 5).to(dtype)
        for dtype in types
    ]
    batch = Batch(("a", "b"), *maps)  # without source_images and labels
    n_open = len(list(Path("/proc/self/fd").iterdir()))
    received: Batch = pickle.loads(ForkingPickler.dumps(SentBatch(batch)))
    assert_equal(vars(received), vars(batch))
    received.source.zero_()  # a file of its own
    del received
    assert len(list(Path("/proc/self/fd").iterdir())) <= n_open + 1  # the socket on which files are asked for
