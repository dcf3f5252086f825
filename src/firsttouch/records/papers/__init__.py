"""What five papers state about CPU-GPU memory, as data: their figures, and their claims."""
