"""Device code in one dialect, and a prelude for each language."""
