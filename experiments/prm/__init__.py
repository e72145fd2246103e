"""A process reward model from automatic labels: `python -m experiments.prm`.

settings  what such an experiment is, and its checks
label     samples of a base policy, and labels of their steps
fit       the decoder and its head learn the labels
measure   held-out chains: first errors, ranking, best-of-n
reward    a task whose step scores are a frozen model's
"""
