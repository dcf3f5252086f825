"""What stands between a traced program and unified memory: buffers that are copies of each other, copies, hazards."""
