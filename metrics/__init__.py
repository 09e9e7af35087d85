"""How good translated images are."""
