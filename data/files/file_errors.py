"""Texts of errors for files that cannot be read."""

COPY_AGAIN = "copy it again, or leave it out"


class UnfitError(Exception):
    """The file is an intact image, but its pixels cannot be used."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its type if it has none."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def not_ids(pixels: str) -> UnfitError:
    """Return the error of a label map without an integer per pixel.

    pixels: What the file holds.
    """
    return UnfitError(
        f"holds {pixels} pixels, expected one integer id per pixel (8-bit or 16-bit PNG, or palette PNG with one "
        "palette for all files). For maps drawn in colours: data.label_colors=FILE, or ids by python -m "
        "tools.convert_data colors-to-ids FROM TO, or RGB pairs with data.n_classes=0"
    )
