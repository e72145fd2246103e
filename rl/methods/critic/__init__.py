"""A value head as the baseline."""
