"""Bake-off: trains with every method, or with every reward, on one small task.

  python -m experiments.studies.bakeoff

setting       configs of all entries, with one base policy and token budget
table         rows and estimates that both tables share
method_table  difference between each method and GRPO
reward_table  mean reward in training and held-out accuracy of each reward
"""
