"""Readers of a user's data files, and a check of their content."""
