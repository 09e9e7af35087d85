"""Networks, their parts, their initial weights, and the originals' weight files."""
