"""RiskPO on the embedded task: bundles of prompts valued by their risk.

  python -m experiments.run --config experiments/configs/methods/riskpo.py \
    --workdir runs/riskpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("riskpo")
