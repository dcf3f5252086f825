"""Counters of the vendors' profilers, one module per tool."""
