"""QAE on the embedded task: a quantile of the group as baseline.

  python -m experiments.run --config experiments/configs/methods/qae.py \
    --workdir runs/qae
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("qae")
