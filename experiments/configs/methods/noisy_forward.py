"""noisy_forward on the embedded task: a verifier that errs.

  python -m experiments.run --config experiments/configs/methods/noisy_forward.py \
    --workdir runs/noisy_forward
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("noisy_forward")
