"""A component on chained arithmetic: paid for answering, right or wrong.

What is paid is the form alone; any digit earns it.

  python -m experiments.run --config experiments/configs/rewards/component.py \
    --workdir runs/component
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "outcome"


def get_config():
  return rewards.on_task(pay(form="component(of='answered')"))
