"""Advice: which memory strategy a program should use, from the records of a run."""
