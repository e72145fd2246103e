"""Verdicts as advantages without a baseline, and verifiers that err."""
