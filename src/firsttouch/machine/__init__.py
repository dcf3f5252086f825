"""What this machine is: hardware, drivers, libraries and limits."""
