"""The memory of any program over time."""
