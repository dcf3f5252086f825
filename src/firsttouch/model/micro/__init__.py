"""What experiments would measure on a machine of which prices or values are known, without running anything."""
