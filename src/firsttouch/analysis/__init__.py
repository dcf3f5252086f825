"""Statistics, curves and what they show, and findings as data."""
