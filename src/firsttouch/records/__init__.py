"""Stored records: their schema, reading, the only writer, and rules of plausibility."""
