"""What five papers state about CPU-GPU memory: their figures, and their claims tested on a run."""
