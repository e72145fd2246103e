"""Semi-online GRPO on the embedded task: a generator that lags.

  python -m experiments.run --config experiments/configs/methods/semi_online_grpo.py \
    --workdir runs/semi_online_grpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("semi_online_grpo")
