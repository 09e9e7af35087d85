"""Settings: their schema, and how YAML becomes a Config."""
