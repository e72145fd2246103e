"""Duration-aware GRPO on the embedded task: slow actions count more.

  python -m experiments.run --config experiments/configs/methods/duration_aware.py \
    --workdir runs/duration_aware
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("duration_aware")
