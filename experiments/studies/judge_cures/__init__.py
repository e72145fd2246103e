"""Runs that a judge with a planted weakness pays, with and without cures."""
