"""brpo_anytime on the embedded task: thinking that may be cut anywhere.

  python -m experiments.run --config experiments/configs/methods/brpo_anytime.py \
    --workdir runs/brpo_anytime
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("brpo_anytime(summaries=2)")
