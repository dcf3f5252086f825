"""The page, its figures, and their export."""
