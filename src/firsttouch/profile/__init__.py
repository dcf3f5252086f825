"""The memory of any program over time; unified-memory events and profilers' counters."""
