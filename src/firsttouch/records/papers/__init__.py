"""What five papers state about CPU-GPU memory, as data: figures, claims, conditions, and the calls that repeat them."""
