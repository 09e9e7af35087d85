from data.checks.observation import Observation
from data.checks.pixel_sizes import different_pixel_sizes
from data.files.tiff_tags import PixelSize


def seen(name: str, side: int = 96, **sizes: float) -> Observation:
    """A sample of quadratic images with pixels of these sizes."""
    pixel_sizes = {kind: PixelSize(size, size, "map units") for kind, size in sizes.items()}
    return Observation(name, pixel_sizes=pixel_sizes, sizes={"source": (side, side), "target": (side, side)})


def test_pixels_of_other_sizes_are_named() -> None:
    alike = [seen(str(number), source=10, target=10.0001) for number in range(3)]
    assert list(different_pixel_sizes({"train": alike}, None)) == []
    others = [seen("far", source=20), seen("feet", source=10)]
    (warning,) = different_pixel_sizes({"train": alike, "test": others}, None)
    assert warning.startswith(
        "pixels of sources have different sizes: 10x10 map units in most, others in 1 of 5 files: test/far with 20x20"
    )
    (warning,) = different_pixel_sizes({"train": [seen("near", source=10), seen("far", source=20)]}, None)
    assert "10x10 map units in some, others in 1 of 2 files" in warning


def test_targets_that_cover_another_area_are_named() -> None:
    (warning,) = different_pixel_sizes({"train": [seen("x", source=10, target=20)]}, None)
    assert "train/x with 20x20 map units instead of 10x10 map units" in warning
    larger = Observation(
        "larger",
        pixel_sizes={"source": PixelSize(10, 10, "map units"), "target": PixelSize(5, 5, "map units")},
        sizes={"source": (8, 8), "target": (16, 16)},
    )
    assert list(different_pixel_sizes({"train": [larger]}, None)) == []


def test_resized_quantities_of_different_sizes_are_named() -> None:
    splits = {"test": [seen("a"), seen("b", 77)]}
    assert list(different_pixel_sizes(splits, None)) == []
    (warning,) = different_pixel_sizes(splits, "scale_width")
    assert warning.startswith("images have 2 sizes: 96x96, 77x77; data.preprocess=scale_width resizes them")
    assert list(different_pixel_sizes({"test": [seen("a"), seen("b")]}, "scale_width")) == []
