from functools import partial

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, ReduceLROnPlateau, StepLR

from configs.schema import OptimizerConfig
from training.optimizer_group import STEP_EPOCHS, LearningRateSchedule, Plateau

CONSTANT, DECAYING = 3, 4


def factors(settings: OptimizerConfig) -> list[float]:
    schedule = LearningRateSchedule(settings, CONSTANT, DECAYING)
    return [schedule.factor(epoch) for epoch in range(CONSTANT + DECAYING)]


def test_linear_decay_equals_pix2pixhd() -> None:
    # pix2pixHD lowers the rate at the end of epoch e (from 1) if e > niter
    rate, expected = 1.0, []
    for epoch in range(1, CONSTANT + DECAYING + 1):
        expected.append(rate)
        if epoch > CONSTANT:
            rate -= 1 / DECAYING
    assert factors(OptimizerConfig(decay="linear")) == expected == [1, 1, 1, 1, 0.75, 0.5, 0.25]


@pytest.mark.parametrize(
    ("settings", "scheduler"),
    [
        (OptimizerConfig(decay="step"), partial(StepLR, step_size=STEP_EPOCHS, gamma=0.1)),
        (OptimizerConfig(decay="cosine"), partial(CosineAnnealingLR, T_max=7)),
    ],
)
def test_step_and_cosine_decay_equal_torch(settings: OptimizerConfig, scheduler: partial[LRScheduler]) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, expected = scheduler(optimizer), []
    for _ in range(CONSTANT + DECAYING):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert factors(settings) == pytest.approx(expected)


def test_plateau_equals_torch_scheduler_and_resumes() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = ReduceLROnPlateau(optimizer, factor=0.2, threshold=0.01, patience=2)
    plateau = Plateau(patience=2)
    metrics = "1.0 0.5 0.499 0.498 0.497 0.6 0.4 0.5 0.5 0.5 0.5 0.1 0.0995 0.2 0.2 0.2 nan 0.3"
    for epoch, metric in enumerate(map(float, metrics.split())):
        plateau.update(metric)
        scheduler.step(metric)
        assert plateau.factor == pytest.approx(optimizer.param_groups[0]["lr"])
        if epoch == 8:  # a plateau has begun
            resumed = Plateau(patience=2)
            resumed.load_state_dict(plateau.state_dict())
            plateau = resumed
    assert plateau.factor < 0.01
