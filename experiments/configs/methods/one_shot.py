"""one_shot on the embedded task: GRPO, a little KL, a little entropy.

  python -m experiments.run --config experiments/configs/methods/one_shot.py \
    --workdir runs/one_shot
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("one_shot")
