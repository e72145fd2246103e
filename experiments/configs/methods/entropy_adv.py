"""The entropy bonus on the advantage, on the embedded task.

  python -m experiments.run --config experiments/configs/methods/entropy_adv.py \
    --workdir runs/entropy_adv
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("entropy_adv")
