"""Allocators: what each is, and who can use it."""
