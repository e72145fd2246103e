"""Pref-GRPO on the embedded task: win rates within the group.

  python -m experiments.run --config experiments/configs/methods/pref_grpo.py \
    --workdir runs/pref_grpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pref_grpo")
