"""Converting data sets between layouts, and photographs to pairs: python -m tools.convert_data."""
