"""Functions and source lines of places in programs and libraries, from their ELF files and DWARF line programs."""
