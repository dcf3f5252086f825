"""What records of one or several experiments show together, in numbers and findings."""
