"""Translation of images with a trained generator."""
