"""coba on the embedded task: samples dealt by capability.

  python -m experiments.run --config experiments/configs/methods/coba.py \
    --workdir runs/coba
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("coba(mean_samples=16)", rollout__samples=24)
