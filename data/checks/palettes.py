"""Palettes of label maps: an index is the same class in two files only if their palettes agree."""

from collections.abc import Iterable

from data.files.image_files import read_palette
from data.layout import Layout
from data.store import Blob, File


def label_map(layout: Layout, index: int) -> Blob | None:
    """Return the file of the label map of sample `index`; None where the source is an RGB image or drawn."""
    files = layout.provenance(index).files if layout.n_classes else ()
    return files[0] if files else None  # the source comes first


def label_maps(layout: Layout, most: int | None = None) -> list[Blob]:
    """Return the files of label maps, up to `most` spread over the layout; none where sources are RGB images."""
    n_samples = len(layout)
    step = -(-n_samples // most) if most else 1
    files = (label_map(layout, index) for index in range(0, n_samples, step))
    return [file for file in files if file]


def palette_problems(files: Iterable[File]) -> list[str]:
    """Return a problem that names two files whose palettes differ; none where those of all files agree.

    Only the headers are read. A palette may have fewer colours than another, and black ones to fill it up.
    """
    longest, longest_file = b"", None
    for file in files:
        palette = read_palette(file)
        shorter, longer = sorted((palette, longest), key=len)
        if not longer.startswith(shorter):
            return [
                f"{file} and {longest_file} have different palettes, so that an id is another class in each: "
                "python -m tools.convert_data colors-to-ids makes ids of the colours; if the ids are right, save the "
                "maps without palettes, as 8-bit PNG"
            ]
        if len(palette) > len(longest):
            longest, longest_file = palette, file
    return []
