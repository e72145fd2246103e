"""Dr. GRPO on the embedded task: no division by spread or length.

  python -m experiments.run --config experiments/configs/methods/dr_grpo.py \
    --workdir runs/dr_grpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("dr_grpo")
