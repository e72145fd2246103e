"""Clip-Cov on the embedded task: a few tokens of high covariance dropped.

  python -m experiments.run --config experiments/configs/methods/clip_cov.py \
    --workdir runs/clip_cov
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("clip_cov")
