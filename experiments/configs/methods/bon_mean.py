"""bon_mean on the embedded task: Best-of-N max@k, mean baseline.

  python -m experiments.run --config experiments/configs/methods/bon_mean.py \
    --workdir runs/bon_mean
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("bon_mean(k=4)")
