"""Flexible clipping on the embedded task: a range that follows time.

  python -m experiments.run --config experiments/configs/methods/flex_clip.py \
    --workdir runs/flex_clip
"""

from experiments.configs import methods


def get_config():
  return methods.on_task(f"flex_clip(steps={methods.STEPS})")
