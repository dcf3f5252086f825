"""What memory does and costs on a machine: pages, rules of drivers, and prices, measured or from a platform file."""
