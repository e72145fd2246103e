"""REINFORCE++ on the embedded task: returns whitened over the batch.

  python -m experiments.run --workdir runs/reinforce_pp \
    --config experiments/configs/methods/reinforce_pp.py
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("reinforce_pp")
