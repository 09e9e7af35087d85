"""Write drawn heads as a data set of volumes."""

import importlib
import shlex
from pathlib import Path

from data.batch import DataError
from data.drawn_volumes import FIELD_MM, draw_patient
from data.folder import SPLITS
from utils.text import counted


def write_drawn_volumes(target: Path, n_patients: int, size: int) -> list[str]:
    """Write MR (A), CT (B) and mask of each patient to TARGET/SPLIT_{A,B,mask}/p001.nii.gz. Return lines for the log.

    n_patients: Number of patients, at least 3. 70 % are for train, 10 % for val and 20 % for test.
    size: Height and width of the slices. The number of slices is two thirds of `size`.

    Raises:
        DataError: `target` exists, a file cannot be written, or SimpleITK is not installed.
    """
    if target.exists():
        raise DataError(f"{target}: already exists. Choose another folder.")
    try:
        sitk = importlib.import_module("SimpleITK")  # a large optional package
    except ImportError as error:
        raise DataError('volumes need SimpleITK. Run python -m pip install --editable ".[volumes]".') from error
    n_val, n_test = max(1, round(0.1 * n_patients)), max(1, round(0.2 * n_patients))
    splits = ["train"] * (n_patients - n_val - n_test) + ["val"] * n_val + ["test"] * n_test
    for number, split in enumerate(splits, 1):
        patient = draw_patient(0, number, (max(1, size * 2 // 3), size, size))
        for folder, voxels in (("A", patient.mr), ("B", patient.ct), ("mask", patient.mask)):
            image, path = sitk.GetImageFromArray(voxels), target / f"{split}_{folder}" / f"p{number:03d}.nii.gz"
            image.SetSpacing([FIELD_MM / size] * 3)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                sitk.WriteImage(image, str(path), useCompression=True)
            except RuntimeError as error:
                raise DataError(f"{path}: cannot be written. Free space there, or choose another folder.") from error
    counts = ", ".join(f"{counted(splits.count(split), 'patient')} in {split}" for split in SPLITS)
    command = ["python", "train.py", "--config", "configs/mr_to_ct_small.yaml", f"data.root={target}"]
    return [f"{target}: {counts}", f"to train on them: {shlex.join(command)}"]
