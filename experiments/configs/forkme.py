"""A config to copy for an experiment of your own (rl/methods/your_method.md).

  python -m experiments.run --config experiments/configs/forkme.py \
    --workdir runs/forkme

The run takes about a minute on two cores: supervised training on imperfect
demonstrations, then RL from the trained policy.
`experiments/configs/defaults.py` has every key with its meaning;
`--config.KEY=VALUE` changes a key for one run.
"""

from experiments.configs import defaults


def get_config():
  # The policy to start from: that of a supervised run, whose files are in the
  # folder `base/` of the workdir. To start from a published model, write
  # config = defaults.rl(steps=60), set config.policy.path to its folder, and
  # use a text task such as config.task = "gsm8k(thinking=False)".
  base = defaults.supervised(steps=200)
  base.model = defaults.model(width=64, layers=2)
  base.task = "countdown(count=4)"  # python -m experiments.catalogue tasks
  base.steps_per_dispatch = 20

  config = defaults.with_base(defaults.rl(steps=60), base)
  # The objective: a method of rl/methods with its settings, or one of yours.
  config.method = "max_at_k(k=4)"
  # The reward, if it is not the task's own score:
  # config.reward = "verdict() + 0.1 * length_charge(free=4)"

  config.rollout.prompts = 32
  config.rollout.samples = 16
  config.optimizer.learning_rate = 1.5e-4
  config.checkpoint_every = 20  # a killed run resumes from the last checkpoint
  config.evaluate_every = 20
  config.keep_best = "evaluation/accuracy/pass@4"
  config.rollouts_every = 20  # samples to read, in `rollouts/` and the report
  config.evaluation.problems = 128
  config.evaluation.samples = 16
  return config
