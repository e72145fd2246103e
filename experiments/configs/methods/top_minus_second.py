"""top_minus_second on the embedded task: only the best sample is paid.

  python -m experiments.run --config experiments/configs/methods/top_minus_second.py \
    --workdir runs/top_minus_second
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("top_minus_second")
