"""max@8 of the exact hit, on countdown: breadth before sharpness.

  python -m experiments.run --config experiments/configs/countdown_max_at_k.py \
    --workdir runs/countdown_max_at_k

Expected: about a minute and a half on two cores, most of it the base policy's.
pass@1 rises by about .06 and pass@8 by about .07, while pass@64 stays within
its interval.
"""

from experiments.configs import countdown_base, defaults


def get_config():
  config = defaults.with_base(
    defaults.rl(steps=120), countdown_base.get_config()
  )
  config.method = "max_at_k(k=8)"
  config.steps_per_dispatch = 10
  return config
