"""Unified-memory events: recorded in a worker, summed, and stored as a trace."""
