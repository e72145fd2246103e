"""pass_at_k_combination on the embedded task: pass@k and pass@1.

  python -m experiments.run --config experiments/configs/methods/pass_at_k_combination.py \
    --workdir runs/pass_at_k_combination
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pass_at_k_combination(k=8)")
