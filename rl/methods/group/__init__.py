"""Baselines and scales: what a sample is worth against its group."""
