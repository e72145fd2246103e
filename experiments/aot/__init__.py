"""Compiles programs ahead of time, for machines that are not present."""
