"""VAPO on the embedded task: its critic learns alone for 10 steps, not 50.

  python -m experiments.run --config experiments/configs/methods/vapo.py \
    --workdir runs/vapo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("vapo(pretraining=10)")
