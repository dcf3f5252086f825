"""Compares results directories: `firsttouch compare` and `firsttouch.compare`."""
