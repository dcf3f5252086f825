"""Which memory strategy a program should use, and what stands between a traced program and unified memory."""
