"""Signed verdicts without a baseline, and verifiers that err."""
