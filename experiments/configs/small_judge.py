"""A small judge that is trained on labelled responses, and pays a run.

Responses of the base policy of chained arithmetic, with their verdicts:

  python -m experiments.run --config experiments/configs/chain.py:base \
    --workdir runs/chain_base
  python -m experiments.preferences --workdir runs/chain_base \
    --problems 4096 --samples 8 --batch 512 \
    --responses runs/judge_responses.jsonl

Lines of a judge that is distilled from a larger one, here the planted judge,
each of whose five votes is wrong for about a tenth of the answers:

  python -m experiments.planted_judge --false_acceptance 0.1 \
    --false_rejection 0.1 &
  python -m experiments.judge_lines --data runs/judge_responses.jsonl \
    --judge http://localhost:8600/v1 --judge_model planted --votes 5 \
    --openings 0.5 --out runs/judge_lines.jsonl

The judge, its rate of errors on other responses and of accepted attacks, and
the run that it pays:

  python -m experiments.run --config experiments/configs/small_judge.py:fit \
    --workdir runs/small_judge
  python -m experiments.preferences --workdir runs/chain_base --seed 1 \
    --problems 512 --samples 8 --batch 512 --responses runs/judge_test.jsonl
  python -m experiments.verify --data runs/judge_test.jsonl \
    --judge_policy runs/small_judge --attacks \
    --question "p_yes(yes='1', no='0', gated=False)"
  python -m experiments.run --config experiments/configs/small_judge.py:paid \
    --workdir runs/small_judge_paid

A model of thoughts, which is fitted to pairs of a better and a worse version of
each response, and pays the thoughts of right answers:

  python -m experiments.thought_pairs --data runs/judge_responses.jsonl \
    --judge http://localhost:8600/v1 --judge_model planted \
    --out runs/thought_pairs.jsonl
  python -m experiments.prm fit --workdir runs/thought_model --steps 400 \
    --policy runs/chain_base --data runs/thought_pairs.jsonl \
    --loss bradley_terry
  python -m experiments.run --workdir runs/thoughts \
    --config experiments/configs/small_judge.py:thoughts
"""

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import chain, defaults

LINES = "runs/judge_lines.jsonl"  # written by `experiments.judge_lines`
JUDGE = "runs/small_judge"  # workdir of `fit`


def fit() -> ConfigDict:
  """Trains a small decoder to say 1 for a right response, else 0.

  Sources: Zhao et al. 2025, One Token to Fool LLM-as-a-Judge (a judge that is
  trained on openings, too); Su et al. 2025, Crossing the Reward Bridge:
  Expanding RL with Verifiable Rewards Across Diverse Domains (a judge that is
  distilled from the majority of a larger one).
  """
  config = defaults.supervised(steps=1500)
  config.task = "jsonl(prompt_length=96, completion_length=4, vocab_size=512)"
  config.data.file = LINES
  config.model = defaults.model(width=128, heads=8, kv_heads=8, mlp_width=512)
  config.rollout.prompts = 64
  config.optimizer.learning_rate = 1e-3
  config.evaluation.problems = 256
  config.evaluation.samples = 1
  config.evaluation.temperature = 0.0
  return config


def paid() -> ConfigDict:
  """RL on the probability that the small judge says 1.

  Source: Su et al. 2025, Crossing the Reward Bridge: Expanding RL with
  Verifiable Rewards Across Diverse Domains (soft rewards, and their z-scores
  over the batch).
  """
  config = _config()
  config.judge = defaults.policy_judge(
    JUDGE, right="p_yes(form='soft', yes='1', no='0', gated=False)"
  )
  config.judge.workers = 256
  config.reward = "right"
  config.method = "reinforce_pp"
  return config


def thoughts() -> ConfigDict:
  """RL on verdicts, and on the thoughts of right answers by a fitted model.

  Source: Fan et al. 2025, Posterior-GRPO: Rewarding Reasoning Processes in Code
  Generation.
  """
  config = _config()
  config.init_from, config.base = "runs/chain_base", ConfigDict()
  config.models.thoughts = defaults.reward_model("runs/thought_model")
  config.reward = (
    "thought = model_outcome(model='thoughts', rule='last'); "
    "posterior(thoughts='thought')"
  )
  config.method = "grpo(beta=0.0)"
  return config


def _config() -> ConfigDict:
  """Returns the part that all runs share."""
  config = defaults.with_base(defaults.rl(steps=60), chain.base())
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  return config


_CONFIGS = config_names.NamedConfigs(
  "small_judge", {"fit": fit, "paid": paid, "thoughts": thoughts}
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
