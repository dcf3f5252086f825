"""Results directories beside each other, beside what papers state, and beside predictions."""
