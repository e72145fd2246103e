"""GSPO on the embedded task: clipped ratios of whole sequences.

  python -m experiments.run --config experiments/configs/methods/gspo.py \
    --workdir runs/gspo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("gspo")
