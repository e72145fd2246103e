"""Injects faults into real runs: `python -m experiments.studies.faults`."""
