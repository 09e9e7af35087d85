"""Reading and writing the weight files of pix2pixHD and pix2pix, called the originals."""
