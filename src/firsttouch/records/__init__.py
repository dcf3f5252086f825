"""Stored records: schema, reading, the only writer; their text, statistics and findings; what papers state."""
