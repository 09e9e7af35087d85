"""Training of a run from a configuration."""
