"""The contract of experiments, and what several of them share."""
