"""Evaluates policies on held-out problems, and estimates with intervals."""
