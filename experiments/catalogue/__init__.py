"""`python -m experiments.catalogue`: lists what the project has."""
