"""Flags, checks of arguments, and error messages that all commands share."""
