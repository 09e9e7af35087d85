"""Limits that the settings share with the readers and warps of images. Imports nothing slow."""

MAX_CHANNELS = 64
"""Most channels of an image."""
TARGET_SCALES = (0.25, 0.5, 1, 2, 4)
"""Heights of a target divided by the height of its source."""
CONTROLS_PER_SIDE = 4  # distances between control points along the shorter side of the output
MOST_ELASTIC = 0.48 / CONTROLS_PER_SIDE
"""Largest displacement, as a share of the shorter side, at which no deformation folds.

A grid of cubic B-splines is one-to-one below 0.48 times the distance of its control points (Choi and Lee 2000).
"""
