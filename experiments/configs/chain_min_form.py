"""Min-form credit from exact step scores, on chained arithmetic.

  python -m experiments.run --config experiments/configs/chain_min_form.py \
    --workdir runs/chain_min_form

With `--config.task="chain(operations=3, prm='filler')"` the process reward
passes any true arithmetic, useful or not. Then compare
`--config.method=sum_form`: it pads with fillers and stops answering.
"""

from experiments.configs import chain_base, common


def get_config():
  config = common.with_base(common.rl(steps=100), chain_base.get_config())
  config.method = "min_form"
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  config.steps_per_dispatch = 10
  return config
