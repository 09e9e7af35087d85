"""Reading and writing the weight files of pix2pixHD, pix2pix, SPADE and OASIS, called the originals."""
