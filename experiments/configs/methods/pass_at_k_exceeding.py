"""pass_at_k_exceeding on the embedded task: pass@k on hard prompts.

  python -m experiments.run --config experiments/configs/methods/pass_at_k_exceeding.py \
    --workdir runs/pass_at_k_exceeding
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pass_at_k_exceeding(k=8)")
