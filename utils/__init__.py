"""Modules that several packages share and that do not depend on GANs."""
