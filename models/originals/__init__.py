"""Import and export of weight files of pix2pixHD, pix2pix, CycleGAN, CUT, SPADE and OASIS (called the originals)."""
