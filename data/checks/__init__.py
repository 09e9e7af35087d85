"""Checks of data sets: samples that cannot be used, displaced pairs, and files that several splits share."""
