"""`python -m experiments.prm`: a process reward model from automatic labels.

The modules, in the order in which the command uses them:
  settings  has the default config, and checks a config
  label     samples the base policy and labels the reasoning steps
  fit       trains the process reward model on the labels
  measure   evaluates the model on held-out problems
Not used by the command:
  reward    makes a task whose step scores come from a trained model
"""
