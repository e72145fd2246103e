"""Min-form credit from exact step scores, on chained arithmetic.

  python -m experiments.run --config experiments/configs/chain_min_form.py \
    --workdir runs/chain_min_form

Expected: about a minute and a half on two cores; right answers rise from .65
to .96. With `--config.task="chain(operations=3, prm='filler')"` the process
reward passes any true arithmetic, useful or not: min-form still reaches .96,
while `--config.method=sum_form` ends at .00, writing fillers to the limit.
"""

from experiments.configs import chain_base, defaults


def get_config():
  config = defaults.with_base(defaults.rl(steps=100), chain_base.get_config())
  config.method = "min_form"
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  config.steps_per_dispatch = 10
  return config
