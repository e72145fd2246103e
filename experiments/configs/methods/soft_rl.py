"""soft_rl on the embedded task: maximum entropy, its price tuned.

  python -m experiments.run --config experiments/configs/methods/soft_rl.py \
    --workdir runs/soft_rl
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("soft_rl")
