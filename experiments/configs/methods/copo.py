"""COPO on the embedded task: groups that agree face the other prompts.

  python -m experiments.run --config experiments/configs/methods/copo.py \
    --workdir runs/copo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("copo")
