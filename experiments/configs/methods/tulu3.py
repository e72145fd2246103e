"""tulu3 on the embedded task: PPO on ten points for a right answer.

  python -m experiments.run --config experiments/configs/methods/tulu3.py \
    --workdir runs/tulu3
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("tulu3")
