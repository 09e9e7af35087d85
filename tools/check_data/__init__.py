"""Command-line tool that checks a data set and reports its problems."""
