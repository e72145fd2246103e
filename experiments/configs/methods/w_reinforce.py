"""w_reinforce on the embedded task: wrong pushed, right pulled gently.

  python -m experiments.run --config experiments/configs/methods/w_reinforce.py \
    --workdir runs/w_reinforce
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("w_reinforce")
