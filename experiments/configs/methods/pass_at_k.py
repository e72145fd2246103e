"""pass_at_k on the embedded task: pass@k training.

  python -m experiments.run --config experiments/configs/methods/pass_at_k.py \
    --workdir runs/pass_at_k
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pass_at_k(k=8)")
