"""What records of applications say. Nothing here measures, and the core is not loaded."""
