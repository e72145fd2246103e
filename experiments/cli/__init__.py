"""Command-line flags, argument checks and error messages of all commands."""
