"""The training loop in seconds: supervised start, RL, evaluation, checkpoints.

  python -m experiments.run --config experiments/configs/smoke.py \
    --workdir runs/smoke

Expected: under a minute on two cores. The policy learns little; the run shows
that every part works on this machine: some samples are right, and updates are
made.
"""

from experiments.configs import defaults


def get_config():
  base = defaults.supervised(steps=200)
  base.model = defaults.model(width=32, heads=2, kv_heads=1, mlp_width=64)
  base.task = "countdown(count=3)"
  base.rollout.prompts = 32
  base.optimizer.warmup_steps = 5
  base.steps_per_dispatch = 20
  config = defaults.with_base(defaults.rl(steps=10), base)
  config.method = "max_at_k(k=4)"
  config.rollout.prompts = 16
  config.rollout.samples = 8
  config.checkpoint_every = 5
  config.rollouts_every = 5
  config.evaluation.problems = 16
  config.evaluation.samples = 8
  config.evaluation.batch = 16
  return config
