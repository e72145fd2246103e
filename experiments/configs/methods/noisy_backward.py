"""noisy_backward on the embedded task: a verifier that errs.

  python -m experiments.run --config experiments/configs/methods/noisy_backward.py \
    --workdir runs/noisy_backward
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("noisy_backward")
