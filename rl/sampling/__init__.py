"""Sampling of completions: how they are decoded, how many, and their PRNG keys."""
