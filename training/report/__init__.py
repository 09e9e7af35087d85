"""Reports of a run: one record of a report or a validation, and a sink for each place where it is shown."""
