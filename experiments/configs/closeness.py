"""RL for max@8 of a continuous score: closeness to the target of countdown.

  python -m experiments.run --config experiments/configs/closeness.py \
    --workdir runs/closeness

Expected: about a minute and a half on two cores. The expected best of 8 rises
from .82 to .84 and the mean from .41 to .46; the best of 64 loses .02.
"""

from experiments.configs import countdown, defaults


def get_config():
  base = countdown.base()
  base.task = "closeness(count=4)"
  config = defaults.with_base(defaults.rl(steps=120), base)
  config.method = "max_at_k(k=8)"
  config.steps_per_dispatch = 10
  return config
