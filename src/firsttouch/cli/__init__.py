"""The commands: on the command line, in Python, and their schemas."""
