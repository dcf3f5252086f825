"""What this machine is: hardware, drivers, libraries, limits, and what each allocator means."""
