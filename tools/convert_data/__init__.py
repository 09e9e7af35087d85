"""Command-line tool that converts data sets between layouts, and photographs to pairs."""
