"""Readers of a user's data files, and checks of what the files hold."""
