"""Reports of a run, and the sinks that write them."""
