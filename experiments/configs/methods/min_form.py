"""min_form on chained arithmetic: the minimum of step scores.

  python -m experiments.run --config experiments/configs/methods/min_form.py \
    --workdir runs/min_form
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("min_form", task=methods.CHAIN)
