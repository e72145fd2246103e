"""BRPO (Writing-Zero) on the embedded task: beat a random member.

  python -m experiments.run --config experiments/configs/methods/brpo_writing.py \
    --workdir runs/brpo_writing
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("brpo_writing")
