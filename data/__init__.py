"""Data sets: from files, or drawn, to batches on the device."""
