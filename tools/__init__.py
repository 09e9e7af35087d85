"""The smaller entry points, one job each."""
