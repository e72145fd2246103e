"""Breaks real runs and shows what is left: `python -m experiments.studies.faults`."""
