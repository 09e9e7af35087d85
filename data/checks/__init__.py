"""Checks of data sets: peculiarities and mistakes, as tools.check_data and errors report them."""
