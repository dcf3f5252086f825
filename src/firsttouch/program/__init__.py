"""What a program does with memory, as data: declared, from a pattern or a trace; strategies, and their execution."""
