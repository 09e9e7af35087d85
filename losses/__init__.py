"""What the networks are trained to minimise."""
