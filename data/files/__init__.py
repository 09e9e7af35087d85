"""Files of images, arrays, weights and videos, one module per format."""
