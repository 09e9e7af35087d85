"""The embedded data set: procedural house fronts, drawn when they are read."""
