"""KL-Cov on the embedded task: tokens of the highest covariance held back.

  python -m experiments.run --config experiments/configs/methods/kl_cov.py \
    --workdir runs/kl_cov
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("kl_cov")
