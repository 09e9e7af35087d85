"""Exporting a generator to other programs: python -m tools.export."""
