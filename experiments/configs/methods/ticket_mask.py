"""ticket_mask on the embedded task: a random hundredth of the weights.

  python -m experiments.run --config experiments/configs/methods/ticket_mask.py \
    --workdir runs/ticket_mask
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("ticket_mask", optimizer__learning_rate=0.0015)
