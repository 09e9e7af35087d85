"""Two runs in one folder: row 17."""

from pathlib import Path

import pytest

from tests import processes
from tests.reliability.test_saving import wait_until
from tests.runs import checkpoint, run
from training.run_folder import RunLockedError
from utils.checkpoint_folder import list_checkpoints
from utils.errors import UserError

pytestmark = pytest.mark.row(17)


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_the_second_is_refused_and_the_first_goes_on(tiny_config: Path, resume: str) -> None:
    folder = tiny_config.parent / "runs" / "tiny"
    first = processes.start(tiny_config, "train.max_steps=1000000", "checkpoint.every_steps=1")
    try:
        wait_until(lambda: bool(list_checkpoints(folder)))
        with pytest.raises(RunLockedError, match=r"tiny: another process is training this run: wait .* run\.name"):
            run(tiny_config, "--resume", resume)
        assert not folder.with_name("tiny.1").exists()
        newest = list_checkpoints(folder)[-1].name
        wait_until(lambda: list_checkpoints(folder)[-1].name > newest)
    finally:
        first.kill()
        first.join()
    assert issubclass(RunLockedError, UserError)
    run(tiny_config, "--resume", "never")  # the lock of a killed run is free
    assert checkpoint(tiny_config, 4)["step"] == 4
