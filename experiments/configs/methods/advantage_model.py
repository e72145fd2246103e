"""An advantage model beside the policy, on the embedded task.

  python -m experiments.run --config experiments/configs/methods/advantage_model.py \
    --workdir runs/advantage_model
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("advantage_model")
