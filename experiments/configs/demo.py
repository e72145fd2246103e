"""The demonstration of `make demo`: a base policy, then max@4 on countdown.

  python -m experiments.run --config experiments/configs/demo.py \
    --workdir runs/demo

Expected: under two minutes and 2 GiB on two cores. pass@1 rises from .20 to
.31, pass@8 from .61 to .67; pass@64 falls from .91 to .84, where GRPO
(`--config.method="grpo(beta=0.0)"`) ends at .72.
"""

from experiments.configs import countdown, defaults


def get_config():
  config = defaults.with_base(defaults.rl(steps=300), countdown.base())
  config.method = "max_at_k(k=4)"
  config.steps_per_dispatch = 10
  config.checkpoint_every = 100
  config.rollouts_every = 100
  config.evaluation.problems = 512
  return config
