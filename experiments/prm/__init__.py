"""`python -m experiments.prm`: process reward models from automatic labels.

The modules, in the order in which the commands use them:
  policy_forest  samples a policy and continues its samples
  label          labels the steps of the samples, and writes them as lines
  step_lines     writes and reads lines of labelled steps
  fit            trains a model on lines
  search, votes  answers that a model guides or weighs
  evaluate       evaluates a model on held-out problems or on lines
"""
