"""Facts about this machine, its devices and vendor libraries, and settings that may distort measurements."""
