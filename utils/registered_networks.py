"""Names of the networks that the calling program has registered: a schema knows them without importing torch."""

OWN_GENERATORS: set[str] = set()
OWN_DISCRIMINATORS: set[str] = set()
