"""A generator in the formats of other programs."""
