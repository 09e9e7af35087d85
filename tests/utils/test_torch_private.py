"""Each private function of torch is there, and the project works without it."""

import os
import pickle
from pathlib import Path

import pytest
import torch
import torch._inductor.config
import torch.fx.experimental._config
from torch import nn

from tests.limits import only_so_many_files
from utils.device import choose_precision
from utils.torch_private import (
    allow_sizes_of_one,
    copy_all,
    cpu_computes_in_bfloat16,
    cpu_has_matrix_units,
    freeze_compiled_weights,
    is_refused_type,
    is_system_error,
)


class Missing:
    """Raises AttributeError for every name, as torch.ops.mkldnn does for an operator that is not registered."""


def test_without_detection_a_cpu_computes_in_float32_and_has_no_matrix_units(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported"), "torch dropped it: see utils/torch_private.py"
    monkeypatch.setattr(torch.ops, "mkldnn", Missing())
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported")
    assert not cpu_computes_in_bfloat16()
    assert not cpu_has_matrix_units()
    assert choose_precision("O1", "auto", torch.device("cpu")).compute_dtype == torch.float32


def test_an_exported_program_takes_a_batch_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = {0: torch.export.Dim.DYNAMIC}
    with allow_sizes_of_one():
        program = torch.export.export(nn.Flatten(), (torch.zeros(2, 3, 4),), dynamic_shapes=(batch,))
    assert program.module()(torch.zeros(1, 3, 4)).shape == (1, 12)
    monkeypatch.setattr(torch.fx.experimental, "_config", Missing())
    with allow_sizes_of_one():  # nothing, where torch has no such setting
        pass


def test_weights_are_frozen_where_the_compiler_has_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch._inductor.config.patch(freezing=False):
        freeze_compiled_weights()
        assert torch._inductor.config.freezing
    monkeypatch.setattr(torch._inductor, "config", None)
    freeze_compiled_weights()


@pytest.mark.parametrize("has_it", [True, False])
def test_tensors_are_copied_together_or_one_by_one(monkeypatch: pytest.MonkeyPatch, has_it: bool) -> None:
    if not has_it:
        monkeypatch.delattr(torch, "_foreach_copy_")
    targets = [torch.zeros(2), torch.zeros(3, dtype=torch.float16)]
    copy_all(targets, torch.arange(5.0).split([2, 3]))
    assert [target.tolist() for target in targets] == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize("n_files", [0, 1])
def test_too_many_open_files_are_no_damage_of_the_file(tmp_path: Path, n_files: int) -> None:
    path = tmp_path / "x.pt"
    torch.save({"x": torch.zeros(1)}, path)
    with only_so_many_files(n_files), pytest.raises((OSError, RuntimeError)) as caught:
        torch.load(path, mmap=True, weights_only=True)
    assert is_system_error(caught.value), f"torch {torch.__version__} has another text: {caught.value}"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RuntimeError) as damaged:
        torch.load(path, mmap=True, weights_only=True)
    assert not is_system_error(damaged.value)


@pytest.mark.parametrize("content", [Path(), os.getcwd])  # a type that torch does not know, and one that it bans
def test_a_refused_type_is_told_from_damage(tmp_path: Path, content: object) -> None:
    torch.save(content, path := tmp_path / "x.pt")
    with pytest.raises(pickle.UnpicklingError) as caught:
        torch.load(path, weights_only=True)
    assert is_refused_type(caught.value), f"torch {torch.__version__} has another text: {caught.value}"
    path.write_bytes(b"\x80\x02\xff")
    with pytest.raises(pickle.UnpicklingError) as damaged:
        torch.load(path, weights_only=True)
    assert not is_refused_type(damaged.value)
