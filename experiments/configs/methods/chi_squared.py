"""chi_squared on the embedded task: the chi-squared leash.

  python -m experiments.run --config experiments/configs/methods/chi_squared.py \
    --workdir runs/chi_squared
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("chi_squared")
