"""GRPO-CARE on the embedded task: a bonus for likely right answers.

  python -m experiments.run --config experiments/configs/methods/grpo_care.py \
    --workdir runs/grpo_care
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("grpo_care")
