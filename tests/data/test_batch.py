from dataclasses import replace

import pytest
import torch

from data.batch import MAPS, Batch, DataError, Sample


@pytest.mark.parametrize("other", [torch.zeros(1, 4, 4, dtype=torch.int32), torch.zeros(3, 4, 4, dtype=torch.uint8)])
def test_maps_of_different_kinds_do_not_fit_one_batch(other: torch.Tensor) -> None:
    first = torch.zeros(1, 4, 4, dtype=torch.uint8)
    with pytest.raises(DataError, match=r"maps of one batch differ .*: choose train\.batch_size=1"):
        Batch.of([Sample("a", first, None, None), Sample("b", other, None, None)])


def test_what_several_files_have_in_the_same_way_is_one_text() -> None:
    error = DataError(*(f"{name}.png: holds RGB pixels" for name in "abcdefg"), "z: no such folder")
    assert str(error).count("RGB") == 1
    assert str(error) == (
        "a.png, b.png, c.png, d.png, e.png: holds RGB pixels; and 3 more: python -m tools.check_data lists all"
    )
    assert str(DataError("a: b: c", "d: b: c", "e")) == "a: b: c; d: b: c; e"


def test_images_of_different_sizes_do_not_fit_one_batch() -> None:
    widths = {"a": 8, "b": 16}
    samples = [Sample(name, torch.zeros(3, 8, width, dtype=torch.uint8), None, None) for name, width in widths.items()]
    with pytest.raises(DataError, match=r"different sizes \(a 8x8, b 16x8\): choose a data\.preprocess"):
        Batch.of(samples)


@pytest.mark.parametrize("kind", [kind for kind in MAPS if kind != "source"])
def test_no_map_of_a_batch_is_dropped_because_one_sample_lacks_it(kind: str) -> None:
    bare = Sample("a", torch.zeros(3, 8, 8, dtype=torch.uint8), None, None)
    complete = replace(bare, name="b", **{kind: torch.zeros(1, 8, 8, dtype=torch.uint8)})
    with pytest.raises(DataError, match=rf"with and without {kind} \(b has it, a lacks it\): let the layout read it"):
        Batch.of([bare, complete])
    assert getattr(Batch.of([complete, complete]), kind).shape == (2, 1, 8, 8)
