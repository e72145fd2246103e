"""brorl on the embedded task: 64 samples, a moving reference.

  python -m experiments.run --config experiments/configs/methods/brorl.py \
    --workdir runs/brorl
"""

from experiments.configs import methods


def get_config():
  return methods.on_task(
    "brorl(every=20)",
    rollout__prompts=8,
    rollout__samples=64,
    plan__minibatches=1,
  )
