"""MAH-DPO on the embedded task: with one objective it is online DPO.

  python -m experiments.run --config experiments/configs/methods/mah_dpo.py \
    --workdir runs/mah_dpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("mah_dpo")
