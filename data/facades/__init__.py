"""Synthetic data sets: house fronts that are drawn when they are read."""
