"""Compare runs: their settings, figures, curves and samples."""
