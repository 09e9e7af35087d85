"""Limits that the settings share with the code that reads and warps images. Imports nothing slow."""

MAX_CHANNELS = 64
"""Largest number of channels of an image."""
OF_VOLUME = "volume"
"""Value of data.source_range: each volume has its own range."""
TARGET_SCALES = (0.25, 0.5, 1, 2, 4)
"""Possible ratios of a target's height to its source's height."""
CONTROLS_PER_SIDE = 4  # number of grid cells (between control points) along the shorter side of the output
MOST_ELASTIC = 0.48 / CONTROLS_PER_SIDE
"""Largest displacement of a control point that cannot fold the image, as a fraction of the shorter side.

A deformation by cubic B-splines is one-to-one below 0.48 times the distance of control points (Choi and Lee 2000).
"""
