"""What a program does with memory, as data: made by a dry run or from a pattern, and replayed under any strategy."""
