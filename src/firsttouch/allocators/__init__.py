"""Allocators: what each is, who can use it, and how that is verified."""
