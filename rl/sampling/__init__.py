"""Samples completions: decoding, number of samples, and PRNG keys."""
