"""ERV on the embedded task: prefixes every 4 tokens, as answers are short.

  python -m experiments.run --config experiments/configs/methods/erv.py \
    --workdir runs/erv
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("erv(stride=4)")
