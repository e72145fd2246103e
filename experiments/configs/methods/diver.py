"""diver on the embedded task: a bonus for unlike right answers.

  python -m experiments.run --config experiments/configs/methods/diver.py \
    --workdir runs/diver
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("diver", steps_per_dispatch=1)
