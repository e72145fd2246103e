"""A short run that `python -m experiments.studies.faults` interrupts.

  python -m experiments.run --config experiments/configs/faults.py \
    --workdir runs/faults

It takes seconds, and has all parts of a run: a supervised base, then 200 steps
with a reference policy, checkpoints every 5 steps, and evaluations and sample
dumps every 20 steps.
"""

from experiments.configs import defaults


def get_config():
  base = defaults.supervised(steps=300)
  base.model = defaults.model(width=32, heads=2, kv_heads=1, mlp_width=64)
  base.task = "countdown(count=3)"
  base.rollout.prompts = 64
  base.steps_per_dispatch = 50
  base.checkpoint_every = 100
  base.sinks = ()
  config = defaults.with_base(defaults.rl(steps=200), base)
  config.method = "grpo(beta=0.01)"
  config.rollout.prompts = 8
  config.rollout.samples = 8
  config.checkpoint_every = 5
  config.evaluate_every = 20
  config.rollouts_every = 20
  config.evaluation.problems = 64
  config.evaluation.samples = 8
  config.evaluation.batch = 16
  config.sinks = ()
  return config
