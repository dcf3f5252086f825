"""What papers state beside a run: their figures, and their claims tested on it."""
