"""brorl on the embedded task: 128 samples, a moving reference.

  python -m experiments.run --config experiments/configs/methods/brorl.py \
    --workdir runs/brorl
"""

from experiments.configs import methods


def get_config():
  return methods.on_task(
    "brorl(every=20)",
    rollout__prompts=4,
    rollout__samples=128,
    plan__minibatches=1,
  )
