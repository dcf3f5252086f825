"""Processes that may crash or hang, alone or as ranks, and the session that they provide to an experiment."""
