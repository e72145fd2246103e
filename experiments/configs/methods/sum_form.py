"""sum_form on chained arithmetic: the sum of step scores.

  python -m experiments.run --config experiments/configs/methods/sum_form.py \
    --workdir runs/sum_form
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("sum_form", task=methods.CHAIN)
