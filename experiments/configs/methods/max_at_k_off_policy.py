"""max_at_k_off_policy on the embedded task: exact off-policy max@k.

  python -m experiments.run --config experiments/configs/methods/max_at_k_off_policy.py \
    --workdir runs/max_at_k_off_policy
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("max_at_k_off_policy(k=4)")
