"""strict_min_form on chained arithmetic: the strict minimum to come.

  python -m experiments.run --config experiments/configs/methods/strict_min_form.py \
    --workdir runs/strict_min_form
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("strict_min_form", task=methods.CHAIN)
