"""What applications share, and what checks them: modules that are no applications."""
