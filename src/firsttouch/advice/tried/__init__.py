"""What a program takes if its arrays and blocks are one memory: the plan, the runs, and what they show."""
