"""A page in the browser to draw on, with the translation beside it."""
