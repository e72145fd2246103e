"""Trains a process reward model on automatic labels: `python -m experiments.prm`.

settings  the config of the experiment, and the checks before it starts
label     samples the base policy, and labels the steps of the samples
fit       trains the process reward model on the labels
measure   evaluates the model on held-out chains
reward    a task whose step scores come from a frozen process reward model
"""
