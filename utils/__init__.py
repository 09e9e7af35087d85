"""Modules that two or more packages need and that know nothing of GANs."""
