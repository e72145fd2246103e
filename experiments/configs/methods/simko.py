"""SimKO on the embedded task: rivals lifted, wrong favourites pressed.

  python -m experiments.run --config experiments/configs/methods/simko.py \
    --workdir runs/simko
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("simko")
