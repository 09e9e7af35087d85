"""The checks of a data set, and their report."""
