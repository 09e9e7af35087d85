"""From a trained generator and images to translated images."""
