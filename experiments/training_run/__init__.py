"""A run from its command line to its last file: checks, loop, and dumps."""
