"""A trained generator as a service: images in, translations out, over HTTP."""
