"""The appearance of synthetic house fronts: shadows follow from the geometry, light and wear are random."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.facades.canvas import COURSE, Element, FacadeClass, FacadeLayout
from data.facades.materials import BRICK_LENGTH, SLATE_LENGTH, material_texture
from data.facades.surface import FloatArray, split_into_parts

# Half widths of uniform distributions of factors.
_EXPOSURE_SPREAD = 0.08
_WARMTH_SPREAD = 0.03
# Standard deviations of factors.
_TINT_SIGMA = 0.025
_INSTANCE_SIGMA = 0.03
# Standard deviation in levels of 255.
_NOISE_SIGMA = 2.5

_BLIND_SHARE = 0.15
"""Share of the windows with a drawn blind."""

# Depth in units of the shadow that a surface casts downwards.
_SHADOW_DEPTH = {FacadeClass.CORNICE: 5.0, FacadeClass.BALCONY: 5.0}
_PAVEMENT_SHADOW_DEPTH = 4.0
_DEEPEST_SHADOW = 0.5

# Strength of the changes of brightness by age and dirt.
_WEATHERING = {
    FacadeClass.WALL: 0.07,
    FacadeClass.ROOF: 0.07,
    FacadeClass.CORNICE: 0.06,
    FacadeClass.CHIMNEY: 0.06,
    FacadeClass.PAVEMENT: 0.06,
    FacadeClass.PLANT: 0.08,
}


@dataclass(frozen=True)
class _Grain:
    """Parts of a surface that differ slightly in brightness. Sizes in units; sigma of a factor."""

    height: float
    length: float
    sigma: float


_GRAIN = {
    FacadeClass.WALL: _Grain(COURSE, BRICK_LENGTH, 0.05),
    FacadeClass.ROOF: _Grain(COURSE, SLATE_LENGTH, 0.05),
    FacadeClass.PLANT: _Grain(1.6, 1.6, 0.13),
}


def paint(rng: np.random.Generator, layout: FacadeLayout) -> NDArray[np.uint8]:
    """Paint a layout under random light, weather and wear; return an (H, W, 3) uint8 RGB image.

    Materials and shadows depend on the layout alone. Level and warmth of the light, a tint per class, stains, drawn
    blinds, clouds and sensor noise are random.
    """
    photo = _materials(rng, layout)
    shade = _shadows(layout)
    shade *= _daylight(layout)
    shade *= _weathering(rng, layout)
    photo *= shade[..., None]
    _add_clouds(rng, layout, photo)
    photo *= _gains(rng, layout)[layout.instances]
    photo += rng.standard_normal(photo.shape, np.float32) * np.float32(_NOISE_SIGMA)
    return np.clip(np.rint(photo), 0, 255).astype(np.uint8)


def _materials(rng: np.random.Generator, layout: FacadeLayout) -> FloatArray:
    photo = np.zeros((*layout.labels.shape, 3), np.float32)
    for element in layout.elements:
        texture = material_texture(element.kind, element.height, element.width, layout.unit)
        if element.kind in _GRAIN:
            texture = texture * _grain(rng, element, _GRAIN[element.kind], layout.unit)
        if element.kind is FacadeClass.WINDOW and rng.random() < _BLIND_SHARE:
            texture = _with_blind(rng, texture, layout.unit)
        visible = layout.instances[element.area] == element.instance
        np.copyto(photo[element.area], texture, where=visible[..., None])
    return photo


def _grain(rng: np.random.Generator, element: Element, grain: _Grain, unit: float) -> FloatArray:
    """Return a (height, width, 1) factor: the brightness of single bricks, slates or leaves."""
    row, _ = split_into_parts(element.height, unit * grain.height)
    column = (np.arange(element.width, dtype=np.float32) + 0.5) / (unit * grain.length)
    part = np.floor(column + np.asarray([[0.0], [0.5]], np.float32)).astype(np.intp)[row % 2]
    factors = 1 + grain.sigma * rng.standard_normal((int(row.max()) + 1, int(part.max()) + 1), np.float32)
    return factors[row[:, None], part][..., None]


def _with_blind(rng: np.random.Generator, texture: FloatArray, unit: float) -> FloatArray:
    """Return the texture of a window with a linen blind drawn down partly."""
    frame = max(1, round(1.5 * unit))
    end = round(len(texture) * rng.uniform(0.3, 0.6))
    panes = texture[frame:end, frame:-frame]
    covered = texture.copy()
    covered[frame:end, frame:-frame] = 0.35 * panes + 0.65 * np.asarray((226, 214, 188), np.float32)
    return covered


def _shadows(layout: FacadeLayout) -> FloatArray:
    """Return an (H, W) factor: ledges and balconies darken what is below and to the right of them, except the sky."""
    shade = np.ones(layout.labels.shape, np.float32)
    for element in layout.elements:
        depth = _SHADOW_DEPTH.get(element.kind, 0.0) * layout.unit
        _cast_shadow(shade, element, min(round(depth), round(1.3 * element.height)))
    _cast_shadow(shade, layout.wall, round(_PAVEMENT_SHADOW_DEPTH * layout.unit))
    shade[layout.labels == FacadeClass.SKY] = 1
    return shade


def _cast_shadow(shade: FloatArray, element: Element, reach: int) -> None:
    """Darken the `reach` pixel rows below an element in place, the nearest row most."""
    shift = round(0.3 * reach)
    below = slice(element.bottom, element.bottom + reach), slice(element.left + shift, element.right + shift)
    falloff = np.linspace(_DEEPEST_SHADOW, 0.95, reach, dtype=np.float32)[: shade[below].shape[0], None]
    np.minimum(shade[below], falloff, out=shade[below])


def _daylight(layout: FacadeLayout) -> FloatArray:
    """Return an (H, W) factor: buildings are brightest at the upper left, and dirty near the ground."""
    wall = layout.wall
    height, width = layout.labels.shape
    rows = np.clip((np.arange(height, dtype=np.float32) - wall.top) / wall.height, 0, 1)
    columns = np.clip((np.arange(width, dtype=np.float32) - wall.left) / wall.width, 0, 1)
    foot = np.clip((np.arange(height, dtype=np.float32) - wall.bottom) / (8 * layout.unit) + 1, 0, 1)
    foot[wall.bottom :] = 0
    light = (1.08 - 0.14 * rows - 0.15 * foot)[:, None] * (1.07 - 0.16 * columns)
    return np.where(layout.labels == FacadeClass.SKY, np.float32(1), light)


def _weathering(rng: np.random.Generator, layout: FacadeLayout) -> FloatArray:
    """Return an (H, W) factor: stains, longer than wide."""
    strength = np.zeros(len(FacadeClass), np.float32)
    for kind, amount in _WEATHERING.items():
        strength[kind] = amount
    stains = _smooth_noise(rng, layout.labels.shape, cells=(4, 14))
    return 1 + strength[layout.labels] * np.clip(stains, -1.5, 1)


def _add_clouds(rng: np.random.Generator, layout: FacadeLayout, photo: FloatArray) -> None:
    cover = np.clip(_smooth_noise(rng, layout.labels.shape, cells=(10, 5)) - 0.5, 0, 0.5)
    cover *= layout.labels == FacadeClass.SKY
    photo += cover[..., None] * (np.float32(246) - photo)


def _smooth_noise(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int]) -> FloatArray:
    """Return (H, W) noise of about unit variance that varies over H / cells[0] rows and W / cells[1] columns."""
    noise = rng.standard_normal((cells[0] + 1, cells[1] + 1), np.float32)
    rows, columns = (_hat_weights(length, count) for length, count in zip(shape, cells, strict=True))
    return np.matmul(rows @ noise, columns.T)


def _hat_weights(length: int, cells: int) -> FloatArray:
    """Return (length, cells + 1) weights of linear interpolation between evenly spaced nodes."""
    position = np.linspace(0, cells, length, dtype=np.float32)
    distance = abs(np.subtract.outer(position, np.arange(cells + 1, dtype=np.float32)))
    return np.maximum(1 - distance, 0)


def _gains(rng: np.random.Generator, layout: FacadeLayout) -> FloatArray:
    """Return (largest instance id + 1, 3) RGB factors: the light, a tint per class and a level per instance."""
    light = 1 + rng.uniform(-_EXPOSURE_SPREAD, _EXPOSURE_SPREAD)
    warmth = 1 + rng.uniform(-_WARMTH_SPREAD, _WARMTH_SPREAD) * np.asarray([1.0, 0.0, -1.0])
    tints = 1 + _TINT_SIGMA * rng.standard_normal((len(FacadeClass), 3))
    kinds = np.zeros(1 + max(element.instance for element in layout.elements), np.intp)
    for element in layout.elements:
        kinds[element.instance] = element.kind
    levels = 1 + _INSTANCE_SIGMA * rng.standard_normal((len(kinds), 1))
    return (light * warmth * tints[kinds] * levels).astype(np.float32)
