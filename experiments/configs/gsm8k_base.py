"""A small policy for grade-school word problems, by imitation.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/gsm8k_base.py --workdir runs/gsm8k_base

FOLDER holds `gsm8k_train.jsonl` and `gsm8k_test.jsonl`. Expected: 400 steps in
10 to 16 minutes on two cores, to a loss near 1.15 nats a token; then about 1 %
of single answers are right, and 43 % of problems within 64 samples.
"""

from experiments.configs import defaults


def get_config():
  config = defaults.supervised(steps=400)
  config.task = (
    "gsm8k(vocab_size=1024, prompt_length=192, completion_length=96)"
  )
  config.model = defaults.model(
    width=256, layers=4, heads=4, head_dim=64, mlp_width=768
  )
  config.rollout.prompts = 32
  config.cpu_devices = 2
  config.optimizer.learning_rate = 2e-3
  config.optimizer.warmup_steps = 50
  config.optimizer.weight_decay = 0.1
  return config
