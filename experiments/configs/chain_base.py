"""The imperfect policy that chain runs start from, by imitation.

  python -m experiments.run --config experiments/configs/chain_base.py \
    --workdir runs/chain_base

Expected: 500 steps on noisy demonstrations (8 % wrong results, carried on; 5 %
filler steps; 3 % early answers), about a minute on two cores; then about two
thirds of the held-out answers are right.
"""

from experiments.configs import defaults


def get_config():
  config = defaults.supervised(steps=500)
  config.task = "chain(operations=3)"
  config.rollout.prompts = 128
  config.optimizer.learning_rate = 3e-3
  config.steps_per_dispatch = 20
  return config
