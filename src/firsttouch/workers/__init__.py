"""Processes that may crash or hang, alone or as ranks."""
