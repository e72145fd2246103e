"""pass_at_k_adaptive on the embedded task: pass@k where hard.

  python -m experiments.run --config experiments/configs/methods/pass_at_k_adaptive.py \
    --workdir runs/pass_at_k_adaptive
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pass_at_k_adaptive(k=8)")
