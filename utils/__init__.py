"""Code that two or more packages need and that knows nothing of GANs."""
