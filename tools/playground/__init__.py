"""A page in the browser to draw on, with the translation next to the drawing."""
