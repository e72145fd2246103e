"""dars on the embedded task: more samples for hard prompts.

  python -m experiments.run --config experiments/configs/methods/dars.py \
    --workdir runs/dars
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("dars(total=24)", rollout__samples=24)
