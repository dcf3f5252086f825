"""Curves of measured values, and what they show."""
