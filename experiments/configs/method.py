"""One config for each method, with all other settings equal where possible.

  python -m experiments.run --config experiments/configs/method.py:grpo \
    --workdir runs/grpo
  python -m experiments.run --workdir runs/max_at_4 \
    --config "experiments/configs/method.py:max_at_k(k=4)"

The tasks are those that are scored on the device. The name of a config is the
name of a method of `rl/methods`. A method that is not in `CHANGES` has the
defaults of `on_task`, so a new method file needs no entry. Settings in brackets
replace those in `CHANGES`. The bake-off
(`python -m experiments.studies.bakeoff`) trains these configs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from experiments.cli import config_names, spec
from experiments.configs import chain, countdown, defaults
from rl import UsageError, methods, registry

# A task with many right answers per problem, on which pass@k can exceed pass@1.
COUNTDOWN = "countdown(count=4)"
CHAIN = "chain(operations=3)"  # a task with step scores
# The score is graded, and only a value equal to the target is right.
CLOSENESS = "closeness(count=4)"
# Countdown whose scores are flipped at the default rates of the corrections.
NOISY = "noisy(false_positive=0.1, false_negative=0.2)"


def _choice_base() -> ConfigDict:
  """Returns the config of a base policy for chained arithmetic with options."""
  config = chain.base()
  # The policy learns to calculate within the first 500 steps, and to find its
  # result among the options within the last 1,500. Afterwards .77 of the
  # held-out answers are right.
  config.steps = 3000
  return config


# Task -> config of the base policy, from which its runs start.
BASES = {
  "countdown": countdown.base,
  "chain": chain.base,
  "choice": _choice_base,
  "closeness": functools.partial(countdown.base, CLOSENESS),
  "noisy": functools.partial(countdown.base, NOISY),
}
STEPS = 100

# Method -> values that differ from `on_task`, by config key. "method" is the
# method with its settings, and "task" the task that replaces countdown.
CHANGES: dict[str, dict[str, Any]] = {
  "aco": {"task": CHAIN},  # reads what follows the first step
  # One update per rollout, since no ratio corrects for a second update.
  "aryabhata": {"plan.minibatches": 1},
  # The default k, written out so that the name of the run shows it.
  "bon_mean": {"method": "bon_mean(k=4)"},
  # BroRL is about large groups: 64 samples of each of 8 prompts, in all as many
  # as 16 of 32. The reference is replaced every 20 steps, since the default of
  # 100 steps is the length of the run. With 8 prompts on eight devices there
  # can be only one minibatch.
  "brorl": {
    "method": "brorl(every=20)",
    "rollout.prompts": 8,
    "rollout.samples": 64,
    "plan.minibatches": 1,
  },
  # 2 completions of each cut thought and not 4, because their tokens count as
  # sampled tokens.
  "brpo_anytime": {"method": "brpo_anytime(summaries=2)"},
  # As the released code; the paper's 1/2 is `dr_grpo` in groups of even size.
  "canon": {"method": "canon(mu=1.0)"},
  # Branches between the steps of a sample: 16 times, as in the paper.
  "carl": {"task": CHAIN, "rollout.samples": 17},
  "clip_delta": {"task": CHAIN},  # reads step scores
  # A prompt gets at most 24 samples, and 16 on average as in other configs.
  "coba": {"method": "coba(mean_samples=16)", "rollout.samples": 24},
  # A hard prompt gets up to 24 samples in all; `rollout.samples` is the limit.
  "capo": {"task": CHAIN},  # reads step scores
  # Right solutions have 15 of at most 28 tokens.
  "dapo": {"task": CHAIN, "method": "dapo(max_length=28, cache=12)"},
  "dars": {"method": "dars(total=24)", "rollout.samples": 24},
  "dispo": {"task": CHAIN, "method": "dispo(max_length=28, cache=12)"},
  # Steps, since the n-grams of short samples all differ more than the cap. It
  # compares samples on the host.
  "diver": {
    "task": CHAIN,
    "method": "diver(kind='steps')",
    "steps_per_dispatch": 1,
  },
  "dpo": {"task": CHAIN},  # lengths differ, by which its variant divides
  "eepo": {"method": "eepo(threshold=0.7)"},  # the base policy has .6 nats
  "empg": {"task": CHAIN},  # reads the steps of a sample
  # Effective ranks of prefixes every 2 tokens instead of 40, of 8 tokens.
  "erv": {"method": "erv(stride=2)"},
  "entropic": {"plan.minibatches": 1},  # strictly on-policy
  # Its clip range moves over the whole run.
  "flex_clip": {"method": f"flex_clip(steps={STEPS})"},
  "gpg": {"plan.minibatches": 1},  # one update per rollout, as in the paper
  "grpo_care": {"task": CHAIN},  # the last step of a sample is its answer
  # The certainty of the policy stands for the scores of a reward model. The
  # part of weight 0 adds nothing; the other part and the method read its value.
  "hero": {
    "reward": "quality = negative_entropy(); stratified(model='quality')"
  },
  "igpo": {"task": CHAIN},  # reads step scores
  # 40 of 4,000 tokens, where the default of 2e-4 would penalise one.
  "kl_cov": {"method": "kl_cov(fraction=0.01)"},
  "lambda_grpo": {"plan.minibatches": 1},  # one update, as in the paper
  "less": {"steps_per_dispatch": 1},  # looks for shared segments on the host
  # k = 8 (default: 4) of the 16 samples of a group, because the evaluation has
  # pass@8. The same holds for the methods pass_at_k...
  "max_at_k": {"method": "max_at_k(k=8)"},
  "max_at_k_min_form": {"task": CHAIN},  # reads step scores
  # The default k, written out so that the name of the run shows it.
  "max_at_k_off_policy": {"method": "max_at_k_off_policy(k=4)"},
  "maxrl": {"plan.minibatches": 1},  # one update per rollout, as in the paper
  "min_form": {"task": CHAIN},  # reads step scores
  # No judge is asked here: whether an expression is legal stands for appeals.
  "noisy_appeals": {"method": "noisy_appeals(appeals='legal')"},
  "noisy_backward": {"task": NOISY},
  "noisy_forward": {"task": NOISY},
  # The policy moves by less than the default of .5 nats in a step.
  "off_policy_mask": {"method": "off_policy_mask(delta=.01)", "plan.epochs": 4},
  "opo": {"task": CHAIN, "plan.minibatches": 1},  # lengths; on-policy
  "optimal_token_baseline": {"plan.minibatches": 1},  # strictly on-policy
  "oprl": {"task": CHAIN},  # gives rewards to steps
  "papo": {"task": CHAIN},  # reads step scores
  "pass_at_k": {"method": "pass_at_k(k=8)"},
  "pass_at_k_adaptive": {"method": "pass_at_k_adaptive(k=8)"},
  "pass_at_k_combination": {"method": "pass_at_k_combination(k=8)"},
  "pass_at_k_exceeding": {"method": "pass_at_k_exceeding(k=8)"},
  "ppo_process": {"task": CHAIN},  # reads step scores
  "pref_grpo": {"task": CLOSENESS},  # compares wrong samples, too
  "prime": {"task": CHAIN},  # a process reward model, on a task with steps
  "prlcoder": {"task": CHAIN},  # reads step scores
  "prof": {"task": CHAIN},  # compares step scores with the outcome
  "progress": {"task": CHAIN},  # reads step scores
  "pure_openrlhf": {"task": CHAIN},  # reads step scores
  "pure_verl": {"task": CHAIN},  # reads step scores
  "reinforce": {"plan.minibatches": 1},  # strictly on-policy
  "remax": {"plan.minibatches": 1},  # strictly on-policy
  # Reads each of the 16 samples of a group once per step, at ten times the
  # paper's rate: the network is narrow, and has few steps to learn.
  "rlfr": {"method": "rlfr(rate=0.001, updates=16)"},
  "rloo": {"plan.minibatches": 1},  # strictly on-policy
  "spark": {"task": CHAIN},  # reads step scores
  "strict_min_form": {"task": CHAIN},  # reads step scores
  "sum_form": {"task": CHAIN},  # reads step scores
  # Graded scores, and one supervised step per rollout.
  "superhf": {"task": CLOSENESS, "plan.minibatches": 1},
  # Ten times the usual rate, because only 1 % of the weights is trained.
  "ticket_mask": {"optimizer.learning_rate": 0.0015},
  # A tree of 16 leaves, with segments of 4 tokens: completions are short.
  "tp_grpo": {"task": CHAIN},  # reads labels of steps
  "treerpo": {"method": "treerpo(width=4, depth=2, segment=4)"},
  "unlikeliness": {"plan.epochs": 2},  # as in the paper
  # For the first 10 of the 100 steps only the critic is trained; the default is
  # 50. With alpha = .05, lambda is 0 for samples of up to 20 tokens.
  "vapo": {"task": CHAIN, "method": "vapo(pretraining=10, alpha=0.5)"},
  # One update per rollout. The reward is the probability of the true answer
  # after the thought, of a sample that has an answer.
  "verifree": {
    "task": "chain(operations=3, reference=True)",
    "plan.minibatches": 1,
    "reward": "probability() * (answered > 0.5)",
  },
}


def names() -> list[str]:
  """Returns the names of all methods, sorted."""
  return methods.names()


def summary(name: str) -> str:
  """Returns the first line of the method's file."""
  return config_names.first_sentence(inspect.getmodule(methods.factory(name)))


def get_config(name: str = "") -> ConfigDict:
  """Returns the config of a method.

  Args:
    name: name of a method, or a name with settings such as "max_at_k(k=4)".

  Raises:
    UsageError: if there is no such method.
  """
  method, settings = spec.parse(name) if name else ("", {})
  config_names.check("method", method, names())
  changes = dict(CHANGES.get(method, {}))
  call = changes.pop("method", method)
  if settings:
    call = spec.write(method, spec.parse(call)[1] | settings)
  return on_task(call, changes.pop("task", COUNTDOWN), changes)


def base(task: str) -> ConfigDict:
  """Returns the supervised config whose policy the runs of a task start from.

  The model has a value head, for the methods that train one.

  Args:
    task: a task, with its settings.

  Raises:
    UsageError: if the task has no base policy.
  """
  name, _ = spec.parse(task)
  if name not in BASES:
    raise UsageError(registry.describe_unknown("embedded task", name, BASES))
  config = BASES[name]()
  config.task = task
  config.model.value_head = True
  return config


def on_task(
  method: str,
  task: str = COUNTDOWN,
  changes: Mapping[str, Any] | None = None,
) -> ConfigDict:
  """Returns a config of RL by a method, from the base policy of a task.

  A training step samples 16 completions of each of 32 prompts and makes two
  updates. In the second update, probability ratios differ from 1.

  Args:
    method: a method, with its hyper-parameters, as in `config.method`.
    task: a task, with its settings.
    changes: values of the config that differ, by dotted key.
  """
  config = defaults.with_base(defaults.rl(steps=STEPS), base(task))
  config.method = method
  config.plan.minibatches = 2
  config.steps_per_dispatch = 10
  config.evaluation.problems = 128
  config.update_from_flattened_dict(dict(changes or {}))
  return config
