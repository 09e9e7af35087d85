"""The weight files of pix2pixHD and pix2pix."""
