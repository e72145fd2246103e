"""max_at_k on the embedded task: max@k.

  python -m experiments.run --config experiments/configs/methods/max_at_k.py \
    --workdir runs/max_at_k
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("max_at_k(k=8)")
