"""Tools of the entry points, one to a file."""
