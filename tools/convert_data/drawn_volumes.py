"""Draw synthetic heads, and write them as a data set of volumes."""

import shlex
from pathlib import Path

import numpy as np

from data.batch import DataError
from data.drawn_volumes import FIELD_MM, draw_patient
from data.files.volume_file import Geometry, write_volume
from data.folder import SPLITS
from utils.text import counted


def write_drawn_volumes(target: Path, n_patients: int, size: int) -> list[str]:
    """Write MR (A), CT (B) and mask of each patient to TARGET/SPLIT_{A,B,mask}/p001.nii.gz. Return lines for the log.

    n_patients: Number of patients, at least 3. 70 % are for train, 10 % for val and 20 % for test.
    size: Height and width of the slices. The number of slices is two thirds of `size`.

    Raises:
        DataError: `target` exists, or SimpleITK is not installed.
        OSError: A file cannot be written.
    """
    if target.exists():
        raise DataError(f"{target}: already exists. Choose another folder.")
    n_val, n_test = max(1, round(0.1 * n_patients)), max(1, round(0.2 * n_patients))
    splits = ["train"] * (n_patients - n_val - n_test) + ["val"] * n_val + ["test"] * n_test
    shape = (max(1, size * 2 // 3), size, size)
    geometry = Geometry(shape[::-1], (FIELD_MM / size,) * 3, (0.0, 0.0, 0.0), tuple(np.eye(3).ravel().tolist()))
    for number, split in enumerate(splits, 1):
        patient = draw_patient(0, number, shape)
        for folder, voxels in (("A", patient.mr), ("B", patient.ct), ("mask", patient.mask)):
            write_volume(target / f"{split}_{folder}" / f"p{number:03d}.nii.gz", voxels, geometry)
    counts = ", ".join(f"{counted(splits.count(split), 'patient')} in {split}" for split in SPLITS)
    command = ["python", "train.py", "--config", "configs/mr_to_ct_small.yaml", f"data.root={target}"]
    return [f"{target}: {counts}", f"to train on them: {shlex.join(command)}"]
