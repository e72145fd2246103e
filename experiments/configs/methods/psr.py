"""psr on the embedded task: only right samples are pulled.

  python -m experiments.run --config experiments/configs/methods/psr.py \
    --workdir runs/psr
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("psr")
