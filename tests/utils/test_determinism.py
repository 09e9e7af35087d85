import logging
import os
import warnings
from collections.abc import Iterator

import pytest
import torch

from utils.determinism import use_deterministic_algorithms
from utils.log import logger


@pytest.fixture
def leaves_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    benchmark = torch.backends.cudnn.benchmark
    with warnings.catch_warnings():
        yield
    use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = benchmark


@pytest.mark.usefixtures("leaves_settings")
def test_everything_that_chooses_algorithms_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.backends.cudnn.benchmark = True
    use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.deterministic


@pytest.mark.usefixtures("leaves_settings")
def test_an_operation_without_a_deterministic_algorithm_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    use_deterministic_algorithms(True)
    with caplog.at_level(logging.WARNING, logger.name):
        for _ in range(3):
            torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))
    (message,) = caplog.messages
    assert message.startswith("train.deterministic: put_ has no deterministic algorithm")
