"""Tulu 3 on countdown: supervised, then DPO, then RL with verifiable rewards.

  python -m experiments.run --config experiments/configs/tulu3.py:sft \
    --workdir runs/tulu3_sft
  python -m experiments.preferences --workdir runs/tulu3_sft \
    --out runs/tulu3_pairs.jsonl --problems 12288 --batch 512
  python -m experiments.run --config experiments/configs/tulu3.py:dpo \
    --workdir runs/tulu3_dpo
  python -m experiments.run --config experiments/configs/tulu3.py:rlvr \
    --workdir runs/tulu3_rlvr

Each stage starts from the run before (`init_from`), so the commands are run in
this order, with these folders or with others in `--config.init_from` and
`--config.preferences`. For several seeds and a table:

  python -m experiments.studies.real_model.tulu3_countdown

Expected: ten minutes a seed on two cores. On 512 held-out problems, as means
over the seeds 0, 1 and 2 (experiments/studies/real_model/README.md):

                pass@1   pass@8   pass@64
  supervised    .20      .60      .91
  then DPO      .25      .62      .88
  then RLVR     .37      .55      .65

Taken from the paper:

  sft   a linear schedule after 3 % of warm-up
  dpo   the length-normalised loss with beta = 5, one epoch of pairs, 128 pairs
        per step, a linear schedule after 10 % of warm-up
  rlvr  `tulu3()`: PPO with a value head, alpha = 10, beta = 0.05, lambda = 0.95
        and clip ranges of 0.2; 512 prompts with one completion each per step,
        4 epochs, each one minibatch, a linear schedule without warm-up

Deviation: the learning rates are those of a decoder with 100 thousand
parameters; those of the last two stages were chosen on seed 100. The paper has
5e-6, 5e-7 and 3e-7 for 8 billion parameters. The paper trains two epochs of a
set of demonstrations in the first stage; here every step has new problems. The
paper's preferences are completions of several models, which a judge compares;
here they are right and wrong samples of the supervised policy. The value head
of the last stage starts from new parameters; in the paper it starts from a
reward model.
Source: Lambert et al. 2024, Tulu 3: Pushing Frontiers in Open Language Model
Post-Training.
"""

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults

TASK = "countdown(count=4)"
# Draws of train problems by `experiments.preferences` in the commands above.
# About 6,000 are distinct; half of these have a right and a wrong sample.
PROBLEMS = 12288


def sft() -> ConfigDict:
  """The first stage of Tulu 3: supervised training on demonstrations."""
  config = defaults.supervised(steps=1000)
  _share(config)
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps = config.get_oneway_ref("steps") * 3 // 100
  config.optimizer.final_scale = 0.0
  config.steps_per_dispatch = 20
  return config


def dpo() -> ConfigDict:
  """The second stage of Tulu 3: DPO on samples of the supervised policy."""
  config = defaults.preferences(steps=24)
  _share(config)
  config.preferences = "runs/tulu3_pairs.jsonl"
  config.init_from = "runs/tulu3_sft"
  config.optimizer.learning_rate = 3e-4
  return config


def rlvr() -> ConfigDict:
  """The third stage of Tulu 3: PPO with a value head and verifiable rewards."""
  config = defaults.rl(steps=300)
  _share(config)
  config.method = "tulu3()"
  config.init_from = "runs/tulu3_dpo"
  config.rollout.prompts = 512
  config.rollout.samples = 1
  config.plan.epochs = 4
  config.optimizer.learning_rate = 2e-4
  config.optimizer.schedule = "linear"
  config.optimizer.decay_steps = config.get_oneway_ref("steps")
  config.optimizer.final_scale = 0.0
  config.steps_per_dispatch = 10
  return config


def _share(config: ConfigDict) -> None:
  """Sets what the three stages share."""
  config.task = TASK
  # The critic of the last stage. A run has the parameters of the run that it
  # starts from, so the earlier stages have the head too, and do not train it.
  config.model.value_head = True
  config.evaluation.problems = 512


_CONFIGS = config_names.NamedConfigs(
  "tulu3",
  {"sft": sft, "dpo": dpo, "rlvr": rlvr},
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
