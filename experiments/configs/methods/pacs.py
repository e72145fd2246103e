"""PACS on the embedded task: log-ratios that predict the verdict.

  python -m experiments.run --config experiments/configs/methods/pacs.py \
    --workdir runs/pacs
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pacs")
