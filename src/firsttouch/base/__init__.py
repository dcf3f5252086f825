"""What every other room stands on: units, errors, files, processes, loading of modules, device code."""
