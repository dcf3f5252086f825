"""Discovers devices and allocators, plans points, and measures them one by one in workers."""
