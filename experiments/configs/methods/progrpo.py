"""ProGRPO on the embedded task: the less confident answer is favoured.

  python -m experiments.run --config experiments/configs/methods/progrpo.py \
    --workdir runs/progrpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("progrpo")
