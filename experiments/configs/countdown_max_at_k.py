"""max@8 of the exact hit, on countdown: pass@k training at its plainest.

  python -m experiments.run --config experiments/configs/countdown_max_at_k.py \
    --workdir runs/countdown_max_at_k
"""

from experiments.configs import common, countdown_base


def get_config():
  config = common.with_base(common.rl(steps=120), countdown_base.get_config())
  config.method = "max_at_k(k=8)"
  config.steps_per_dispatch = 10
  return config
