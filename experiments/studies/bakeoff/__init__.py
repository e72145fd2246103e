"""Bake-off: trains with every method, or with every reward, on one small task.

  python -m experiments.studies.bakeoff

method_setting  configs of all methods, with one base policy and token budget
method_table    difference between each method and GRPO: Markdown, HTML, JSON
reward_setting  configs of all rewards, with one base policy and token budget
reward_table    mean reward in training and held-out accuracy of each reward
"""
