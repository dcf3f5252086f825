"""Applications as points: measured, verified, and reported."""
