"""The embedded data set: house fronts, drawn when they are read."""
