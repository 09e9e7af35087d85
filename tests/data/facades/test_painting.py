import numpy as np
from numpy.typing import NDArray

from data.facades.geometry import draw_layout
from data.facades.painting import paint
from data.facades.renderer import CLASS_NAMES, render_facade


def test_light_varies_and_the_geometry_does_not_depend_on_it() -> None:
    layout_rng, light_rng, other_light_rng = np.random.default_rng(4).spawn(3)
    layout = draw_layout(layout_rng, 128, 128)
    photo, other = (paint(rng, layout).astype(np.float64) for rng in (light_rng, other_light_rng))
    assert 3 < np.abs(photo - other).mean() < 30
    facade = render_facade(np.random.default_rng(4), 128, 128)
    np.testing.assert_array_equal(facade.labels, layout.labels)
    np.testing.assert_array_equal(facade.instances, layout.instances)
    np.testing.assert_array_equal(facade.photo, photo)


def test_most_of_the_variation_within_a_class_follows_from_the_geometry() -> None:
    labels, photos, predictions = [], [], []
    for index in range(12):
        layout_rng, *lights = np.random.default_rng([2, index]).spawn(14)
        layout = draw_layout(layout_rng, 128, 128)
        photo, *others = (paint(light, layout).astype(np.float32) for light in lights)
        labels.append(layout.labels)
        photos.append(photo)
        predictions.append(np.median(np.stack(others), axis=0))
    truth = np.stack(photos)
    by_layout = np.abs(truth - np.stack(predictions)).mean()
    by_class = np.abs(truth - _best_constants(np.stack(labels), truth)).mean()
    assert by_layout / by_class < 0.5


def _best_constants(labels: NDArray[np.uint8], photos: NDArray[np.float32]) -> NDArray[np.float32]:
    medians = np.zeros((len(CLASS_NAMES), 3), np.float32)
    for kind in np.unique(labels):
        medians[kind] = np.median(photos[labels == kind], axis=0)
    return medians[labels]
