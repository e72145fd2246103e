"""A study that injects faults into real runs: `python -m experiments.studies.faults`."""
