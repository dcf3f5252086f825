"""Carries out on a device what a program does with memory, under a strategy."""
