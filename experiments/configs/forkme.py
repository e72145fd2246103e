"""Copy this file to begin an experiment of your own (rl/methods/your_method.md).

  python -m experiments.run --config experiments/configs/forkme.py \
    --workdir runs/forkme

About a minute on two cores: an imitation of imperfect demonstrations, then RL
from it. Every setting there is, with what it means, stands in
`experiments/configs/defaults.py`; `--config.KEY=VALUE` changes one for a run.
"""

from experiments.configs import defaults


def get_config():
  # What to start from: a supervised run, here in `base/` of the workdir. For a
  # published model: config = defaults.rl(steps=60), config.policy.path = its
  # folder, and a task of text, config.task = "gsm8k(thinking=False)" say.
  base = defaults.supervised(steps=200)
  base.model = defaults.model(width=64, layers=2)
  base.task = "countdown(count=4)"  # python -m experiments.catalogue tasks
  base.steps_per_dispatch = 20

  config = defaults.with_base(defaults.rl(steps=60), base)
  # What is optimised: a file of rl/methods, with its settings. Yours too.
  config.method = "max_at_k(k=4)"
  # What is paid, if not the task's own score:
  # config.mix = defaults.pay(right="verdict()", brief="length_charge()")

  config.rollout.prompts = 32
  config.rollout.samples = 16
  config.optimizer.learning_rate = 1.5e-4
  config.checkpoint_every = 20  # what a killed run goes on from
  config.evaluate_every = 20
  config.keep_best = "evaluation/accuracy/pass@4"
  config.rollouts_every = 20  # samples to read, in rollouts/ and the report
  config.evaluation.problems = 128
  config.evaluation.samples = 16
  return config
