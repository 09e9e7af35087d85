"""The Dockerfile and the TrainJob name files, settings and options that exist."""

import pytest
import yaml

import train
from tests.docs.documents import ROOT


def test_the_image_is_made_of_files_that_are_here() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert "pyproject.toml" in copied
    assert all((ROOT / name).exists() for name in copied)
    left_out = (ROOT / ".dockerignore").read_text().splitlines()[1:]
    assert not {"configs", "training", "train.py", "test.py"} & set(left_out)


def test_the_train_job_trains(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = yaml.safe_load((ROOT / "scripts" / "kubeflow_trainjob.yaml").read_text())["spec"]["trainer"]
    words = trainer["command"] + trainer["args"]
    assert words[:2] == ["torchrun", "train.py"]
    monkeypatch.chdir(ROOT)
    train.main([*words[2:], "--print-config"])
    assert "name: mine" in capsys.readouterr().out
