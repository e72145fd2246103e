"""The imperfect policy that countdown runs start from, by imitation.

  python -m experiments.run --config experiments/configs/countdown_base.py \
    --workdir runs/countdown_base

Expected: 1000 steps on fresh demonstrations, 10 % of whose operators are drawn
anew; about one minute on two cores. Then pass@1 is near .20 and pass@64 near
.91 on held-out problems.
"""

from experiments.configs import defaults


def get_config():
  config = defaults.supervised(steps=1000)
  config.task = "countdown(count=4)"
  config.steps_per_dispatch = 20
  return config
