"""An HTTP service that translates images with a trained generator."""
