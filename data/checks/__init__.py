"""What data sets may have wrong, as tools.check_data and errors report it."""
