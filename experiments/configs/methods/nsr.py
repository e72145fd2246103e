"""nsr on the embedded task: only wrong samples are pushed.

  python -m experiments.run --config experiments/configs/methods/nsr.py \
    --workdir runs/nsr
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("nsr")
