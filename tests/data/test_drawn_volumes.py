"""Drawn heads are reproducible, have the tissues of CT and MR, and need their neighbours against noise."""

import numpy as np
import pytest

from data.drawn_volumes import DrawnPatient, draw_patient

SIZE = (32, 48, 48)


@pytest.fixture(scope="module", params=range(3))
def patient(request: pytest.FixtureRequest) -> DrawnPatient:
    return draw_patient(0, request.param, SIZE)


def test_equal_arguments_draw_equal_patients_and_others_differ() -> None:
    first, again = draw_patient(3, 1, SIZE), draw_patient(3, 1, SIZE)
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in ("mr", "ct", "mask"))
    for other in (draw_patient(3, 2, SIZE), draw_patient(4, 1, SIZE)):
        assert not np.array_equal(first.mask, other.mask)
        assert not np.array_equal(first.ct, other.ct)
    assert draw_patient(0, 0, (5, 20, 31)).mr.shape == (5, 20, 31)


def test_ct_has_the_units_of_its_tissues_inside_the_mask(patient: DrawnPatient) -> None:
    assert (patient.mr.dtype, patient.ct.dtype, patient.mask.dtype) == (np.float32, np.int16, np.uint8)
    inside = patient.ct[patient.mask == 1]
    assert set(np.unique(patient.mask)) == {0, 1}
    assert (patient.ct[patient.mask == 0] == -1024).all()
    assert inside.min() >= -1024
    for low, high, share in ((-1024, -800, 0.002), (-150, -60, 0.05), (0, 80, 0.3), (300, 1600, 0.08)):
        assert ((low <= inside) & (inside <= high)).mean() > share
    assert 0.2 < patient.mask.mean() < 0.5


def test_bone_and_air_are_dark_in_the_mr_and_fat_is_bright(patient: DrawnPatient) -> None:
    def signal(low: int, high: int) -> float:
        return float(np.median(patient.mr[(patient.mask == 1) & (low <= patient.ct) & (patient.ct <= high)]))

    fat, muscle, bone, air = signal(-130, -70), signal(0, 80), signal(600, 1600), signal(-1024, -900)
    assert patient.mr.min() >= 0
    assert abs(bone - air) < 0.1 * fat
    assert max(bone, air) < 0.5 * muscle
    assert muscle < fat


def test_noise_is_independent_in_neighbouring_slices(patient: DrawnPatient) -> None:
    air = (patient.mask[:-1] == 0) & (patient.mask[1:] == 0)
    first, second = patient.mr[:-1][air], patient.mr[1:][air]
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2
    assert ((first + second) / 2).std() < 0.8 * first.std()


def test_the_mr_unit_differs_between_patients() -> None:
    units = [np.percentile(draw_patient(0, index, (8, 24, 24)).mr, 90) for index in range(6)]
    assert max(units) > 2 * min(units)
