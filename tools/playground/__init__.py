"""A web page that translates a drawing while the user draws."""
