"""Discovers devices, plans points, and measures them one by one."""
