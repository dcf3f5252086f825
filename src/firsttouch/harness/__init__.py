"""Applications as points: measured, verified, and what their records say."""
