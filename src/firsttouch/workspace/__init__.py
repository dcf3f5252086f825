"""Strategies, and what they do with the buffers of an application."""
