"""Unlikeliness reward on the embedded task: rare right answers earn more.

  python -m experiments.run --workdir runs/unlikeliness \
    --config experiments/configs/methods/unlikeliness.py
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("unlikeliness", plan__epochs=2)
