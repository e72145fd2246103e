"""max@k RL of a small policy on grade-school word problems, from scratch.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/gsm8k_max_at_k.py --workdir runs/gsm8k

FOLDER holds `gsm8k_train.jsonl` and `gsm8k_test.jsonl`. Expected: under half an
hour on two cores, most of it the base policy's. On 256 held-out problems pass@1
rises from .013 to .024 and pass@8 from .095 to .129; pass@64 falls from .43 to
.36.
"""

from experiments.configs import defaults, gsm8k_base


def get_config():
  config = defaults.with_base(defaults.rl(steps=60), gsm8k_base.get_config())
  config.method = "max_at_k(k=8)"
  config.rollout.prompts = 16
  config.rollout.samples = 16
  config.optimizer.learning_rate = 1e-4
  config.evaluation.problems = 256
  config.evaluation.samples = 64
  config.evaluation.batch = 16
  return config
