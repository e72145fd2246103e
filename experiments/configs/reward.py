"""One config for each reward, on an embedded task, alike but for the reward.

  python -m experiments.run --config experiments/configs/reward.py:majority \
    --workdir runs/majority

The policy never sees more of the truth than the reward does, while the task
judges the held-out answers: what was paid for can be compared with what was
achieved. The bake-off (`python -m experiments.studies.bakeoff --rewards`)
trains these very configs.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from experiments.cli import config_names, spec
from experiments.configs import defaults
from experiments.configs import method as method_configs

GRPO = "grpo(beta=0.0)"
# Step scores are those of an exact checker.
CHAIN = method_configs.CHAIN
# The judge of steps accepts `+ 0 r ;` for ever.
FILLER = "chain(operations=3, prm='filler')"
# The judge of steps never looks ahead: it accepts filler too, and any running
# value as the answer.
LOCAL = "chain(operations=3, prm='local')"
# The reward may read the true answer.
REFERENCE = "chain(operations=3, reference=True)"
# A graded score, where only an exact hit counts as right.
CLOSENESS = "closeness(count=4)"
# Four continuations of every prefix; they count as sampled tokens.
CONTINUED = "prefix_values(continuations=4, steps=5)"
# Tasks whose base policy learns from the demonstrations of another task.
_TAUGHT_BY = {"closeness": method_configs.COUNTDOWN}

# Of each config:
#   family   the heading under which the bake-off lists it
#   summary  what is paid for
#   terms    rewards by name, in order; a dict is a `defaults.term`
#   steps    the reward of steps, for methods that read step scores
#   rule     how terms are combined; default: "sum"
#   task, method, sampler   default: CHAIN, GRPO and one rollout
ENTRIES: dict[str, dict[str, Any]] = {
  "adaptive_token_price": {
    "family": "length",
    "summary": "a right answer, less a price per token that follows accuracy",
    # A right answer takes 15 tokens, which cost .15 at the start. The price
    # moves with the accuracy of the batch, which is near .7 at the start.
    "terms": {
      "right": "adaptive_token_price(price=0.01, reference=0.7, rate=0.01)"
    },
  },
  "answer_confidence": {
    "family": "label-free",
    # Whatever came before the answer may be wrong.
    "summary": "confidence of the policy in the answer that it gives",
    "terms": {"sure": "answer_confidence()"},
  },
  "arctan": {
    "family": "shapes",
    "summary": "arctan of closeness, relative to the greedy sample",
    "terms": {"close": "arctan(references='sampler/greedy_scores')"},
    "task": CLOSENESS,
    "sampler": "greedy()",
  },
  "ceiling": {
    "family": "shapes",
    # Half as near is as good as a hit.
    "summary": "closeness up to a ceiling of one half",
    "terms": {"close": "ceiling(highest=0.5)"},
    "task": CLOSENESS,
  },
  "centered": {
    "family": "shapes",
    "summary": "closeness, less that of the greedy sample",
    "terms": {"close": "centered(references='sampler/greedy_scores')"},
    "task": CLOSENESS,
    "sampler": "greedy()",
  },
  "charged_where_easy": {
    "family": "length",
    "summary": "a right answer, with a charge for length on easy prompts",
    "terms": {"right": "charged_where_easy()"},
  },
  "clipped": {
    "family": "shapes",
    "summary": "closeness, clipped at one deviation of all scores so far",
    "terms": {"close": "clipped()"},
    "task": CLOSENESS,
  },
  "clipped_confidence": {
    "family": "confidence of the right",
    "summary": "a right answer, and clipped confidence in it",
    "terms": {"right": "clipped_confidence()"},
  },
  "cluster_share": {
    "family": "label-free",
    "summary": "share of the group that gives the same answer",
    "terms": {"share": "cluster_share()"},
  },
  "component": {
    "family": "outcome",
    # Only the form is paid for; any digit earns it.
    "summary": "the component 'answered': any answer, right or wrong",
    "terms": {"form": "component(name='answered')"},
  },
  "debiased_probability": {
    "family": "reference answer",
    "summary": "debiased probability of the true answer; a bonus for ending",
    "terms": {"likely": "debiased_probability()"},
    "task": REFERENCE,
  },
  "distinct_ngrams": {
    "family": "outcome",
    # A text of one token repeats nothing.
    "summary": "share of distinct 2-grams: a text that does not repeat itself",
    "terms": {"distinct": "distinct_ngrams(n=2)"},
  },
  "ensemble": {
    "family": "mixes",
    "summary": "the worse of two rewards, majority and confidence",
    # Neither member reads a label. Terms of weight 0 are only read by others.
    "terms": {
      "vote": {"reward": "majority()", "weight": 0.0},
      "sure": {"reward": "answer_confidence()", "weight": 0.0},
      "worse": "ensemble(members=('vote', 'sure'), rule='worst')",
    },
  },
  "gains": {
    "family": "steps",
    "summary": "what each step adds to the probability of success",
    "steps": "gains()",
    "method": "sum_form",
    "sampler": CONTINUED,
  },
  "gated_process": {
    "family": "mixes",
    "summary": "the verdict, and the mean step score where it is right",
    "terms": {
      "right": "verdict()",
      "process": {"reward": "mean_step()", "weight": 0.5, "gates": ("right",)},
    },
    # The judge never looks ahead; `mean_step_local` pays for it alone.
    "task": LOCAL,
  },
  "group_log_mean_advantages": {
    "family": "reference answer",
    "summary": "what a thought adds to the log of the group's mean probability",
    "terms": {"likely": "group_log_mean_advantages()"},
    "task": REFERENCE,
  },
  "harmonized_length": {
    "family": "length",
    "summary": "the verdict, and harmonized length of right answers only",
    "terms": {
      "right": "verdict()",
      "brief": {
        "reward": "harmonized_length()",
        "weight": 0.2,
        "gates": ("right",),
      },
    },
  },
  "harmonized_length_alone": {
    "family": "length",
    # Only shortness is paid for, and not to answer is shortest.
    "summary": "harmonized length, with nothing that checks the answer",
    "terms": {"brief": "harmonized_length()"},
  },
  "information_gain": {
    "family": "steps",
    "summary": "information that each step gains about success",
    "steps": "information_gain()",
    "method": "sum_form",
    "sampler": CONTINUED,
  },
  "last_step": {
    "family": "process as outcome",
    "summary": "score of the last step, by a judge that never looks ahead",
    "terms": {"process": "last_step()"},
    "task": LOCAL,  # any running value passes as an answer
  },
  "late_preference": {
    "family": "shapes",
    "summary": "a late sigmoid of closeness, relative to the greedy sample",
    "terms": {"close": "late_preference(references='sampler/greedy_scores')"},
    "task": CLOSENESS,
    "sampler": "greedy()",
  },
  "length_charge": {
    "family": "length",
    "summary": "the verdict, less a charge for length",
    # A right answer takes 15 tokens and is charged 1.1, more than it earns. The
    # optimum is to say nothing.
    "terms": {
      "right": "verdict()",
      "brief": "length_charge(free=4, price=0.1)",
    },
  },
  "linear_schedule": {
    "family": "mixes",
    "summary": "from the process to the verdict, linearly over training",
    "terms": {
      "right": "verdict()",
      # After 40 steps nothing of the process is left.
      "process": {
        "reward": "last_step()",
        "weight": 1.0,
        "schedule": "linear",
        "final": 0.0,
        "schedule_steps": 40,
      },
    },
    "task": LOCAL,
  },
  "log_probability": {
    "family": "reference answer",
    "summary": "log-probability of the true answer",
    "terms": {"likely": "log_probability()"},
    "task": REFERENCE,
  },
  "log_sigmoid": {
    "family": "shapes",
    "summary": "log sigmoid of closeness",
    "terms": {"close": "log_sigmoid(reference=0.5)"},
    "task": CLOSENESS,
  },
  "majority": {
    "family": "label-free",
    "summary": "the most frequent answer of the group counts as right",
    "terms": {"vote": "majority()"},
  },
  "mean_log_probability": {
    "family": "reference answer",
    "summary": "mean log-probability of the tokens of the true answer",
    "terms": {"likely": "mean_log_probability()"},
    "task": REFERENCE,
  },
  "mean_probability": {
    "family": "reference answer",
    "summary": "mean probability of the tokens of the true answer",
    "terms": {"likely": "mean_probability()"},
    "task": REFERENCE,
  },
  "mean_step": {
    "family": "process as outcome",
    # Filler before a wrong answer dilutes it.
    "summary": "mean step score, by a judge that accepts filler",
    "terms": {"process": "mean_step()"},
    "task": FILLER,
  },
  "mean_step_local": {
    "family": "process as outcome",
    "summary": "mean step score, by a judge that never looks ahead",
    "terms": {"process": "mean_step()"},
    "task": LOCAL,
  },
  "min_max": {
    "family": "shapes",
    "summary": "closeness, scaled to the range of all scores so far",
    "terms": {"close": "min_max()"},
    "task": CLOSENESS,
  },
  "negative_entropy": {
    "family": "label-free",
    "summary": "negative entropy: certainty of the policy",
    "terms": {"sure": "negative_entropy()"},
  },
  "nonlinear": {
    "family": "process as outcome",
    # Each step that the judge accepts raises the reward, filler too.
    "summary": "PSPO's shape of step scores: more steps are better",
    "terms": {"process": "nonlinear()"},
    "task": FILLER,
  },
  "normalized_steps": {
    "family": "steps",
    "summary": "normalized step scores, by a judge that accepts filler",
    "steps": "normalized_steps()",
    "task": FILLER,
    "method": "sum_form",
  },
  "outcome_centered": {
    "family": "steps",
    "summary": "step scores centred on the outcome, by a judge of filler",
    "steps": "outcome_centered()",
    "task": FILLER,
    "method": "sum_form",
  },
  "phase_entropy": {
    "family": "confidence of the right",
    "summary": "a right answer, with little wavering in the thought",
    # The thought ends at ANS, which is token 4.
    "terms": {"right": "phase_entropy(thought_end=4)"},
  },
  "polynomial": {
    "family": "shapes",
    "summary": "a polynomial of closeness, relative to the greedy sample",
    "terms": {"close": "polynomial(references='sampler/greedy_scores')"},
    "task": CLOSENESS,
    "sampler": "greedy()",
  },
  "posterior": {
    "family": "mixes",
    "summary": "posterior reward: a judge scores the thought of right answers",
    # The term of weight 0 is only read by the other.
    "terms": {
      "judge": {"reward": "step_product()", "weight": 0.0},
      "right": "posterior(thoughts='judge')",
    },
    "task": LOCAL,  # the judge of the thought never looks ahead
  },
  "preference": {
    "family": "shapes",
    "summary": "PAR: the probability that closeness beats the greedy sample",
    "terms": {"close": "preference(references='sampler/greedy_scores')"},
    "task": CLOSENESS,
    "sampler": "greedy()",
  },
  "probability": {
    "family": "reference answer",
    "summary": "probability of the true answer after the thought",
    "terms": {"likely": "probability()"},
    "task": REFERENCE,
  },
  "product": {
    "family": "mixes",
    "summary": "the verdict times the product of step scores",
    "rule": "product",
    "terms": {"right": "verdict()", "process": "step_product()"},
    # The judge never looks ahead; `step_product` pays for it alone.
    "task": LOCAL,
  },
  "relative_length": {
    "family": "length",
    "summary": "a right answer, and a shorter one than others of the group",
    "terms": {"right": "relative_length(alpha=0.2)"},
  },
  "self_aligned_reward": {
    "family": "confidence of the right",
    "summary": "a right answer, likelier with the question than without it",
    "terms": {"aligned": "self_aligned_reward()"},
  },
  "self_certainty": {
    "family": "label-free",
    "summary": "self-certainty: distance of the policy from a uniform guess",
    "terms": {"sure": "self_certainty()"},
  },
  "significant_gains": {
    "family": "steps",
    "summary": "gains of steps that exceed their noise",
    "steps": "significant_gains()",
    "method": "sum_form",
    "sampler": CONTINUED,
  },
  "standardized": {
    "family": "shapes",
    "summary": "closeness, standardized by all scores so far",
    "terms": {"close": "standardized()"},
    "task": CLOSENESS,
  },
  "step_product": {
    "family": "process as outcome",
    "summary": "product of step scores, by a judge of single steps",
    "terms": {"process": "step_product()"},
    "task": LOCAL,
  },
  "stratified": {
    "family": "mixes",
    "summary": "a model's score within the bands of the verdict",
    # The model is the policy's own certainty. The term of weight 0 is only read
    # by the other.
    "terms": {
      "model": {"reward": "negative_entropy()", "weight": 0.0},
      "right": "stratified(model='model', alpha=0.1, beta=0.1)",
    },
  },
  "tanh": {
    "family": "shapes",
    "summary": "tanh of closeness, relative to the greedy sample",
    "terms": {"close": "tanh(references='sampler/greedy_scores')"},
    "task": CLOSENESS,
    "sampler": "greedy()",
  },
  "task": {
    "family": "shapes",
    # Nearness is paid for, while only an exact hit is right.
    "summary": "closeness, the graded score of the task, unchanged",
    "terms": {"close": "task()"},
    "task": CLOSENESS,
  },
  "token_f1": {
    "family": "reference answer",
    # The full completion is compared, so everything it holds besides the answer
    # costs.
    "summary": "token F1: words shared with the true answer",
    "terms": {"overlap": "token_f1()"},
    "task": REFERENCE,
  },
  "trusted": {
    "family": "mixes",
    "summary": "a judge, trusted where it agrees with the verdict",
    # The term of weight 0 is only read by the other.
    "terms": {
      "judge": {"reward": "step_product()", "weight": 0.0},
      "right": "trusted(thoughts='judge', horizon=40.0)",
    },
    "task": LOCAL,  # the judge of the thought never looks ahead
  },
  "verdict": {
    "family": "outcome",
    # The reference of the bake-off of rewards.
    "summary": "the verdict, with which all others are compared",
    "terms": {"right": "verdict()"},
  },
  "verdict_and_process": {
    "family": "mixes",
    "summary": "the verdict plus the score of the last step, without a gate",
    "terms": {"right": "verdict()", "process": "last_step()"},
    # The judge never looks ahead; `last_step` pays for it alone.
    "task": LOCAL,
  },
  "weibull": {
    "family": "process as outcome",
    # The judge accepts filler; the prompts take four steps.
    "summary": "a Weibull shape of step scores: about four steps are best",
    "terms": {"process": "weibull()"},
    "task": FILLER,
  },
  "worst_step": {
    "family": "process as outcome",
    "summary": "score of the worst step, by a judge that accepts filler",
    "terms": {"process": "worst_step()"},
    "task": FILLER,
  },
  "worst_step_local": {
    "family": "process as outcome",
    # To answer at once with the value that the prompt begins with is flawless.
    "summary": "score of the worst step, by a judge that never looks ahead",
    "terms": {"process": "worst_step()"},
    "task": LOCAL,
  },
  "z_scores": {
    "family": "mixes",
    "summary": "sum of the z-scores of three rewards",
    "rule": "z_scores",
    # The charge that spoils `length_charge` as a sum has no scale here.
    "terms": {
      "right": "verdict()",
      "ended": {"reward": "finished()", "weight": 0.2},
      "brief": {"reward": "length_charge(free=4, price=0.1)", "weight": 0.2},
    },
  },
}


def names() -> list[str]:
  """Returns the names of the configs, sorted."""
  return sorted(ENTRIES)


def summary(name: str) -> str:
  return ENTRIES[name]["summary"]


def family(name: str) -> str:
  """Returns the heading under which the bake-off lists a config."""
  return ENTRIES[name]["family"]


def get_config(name: str = "") -> ConfigDict:
  """GRPO, or a method of steps, paid by a reward, from the task's base policy.

  Prompts, samples and updates are those of `method.on_task`.

  Args:
    name: one of `names()`.

  Raises:
    ValueError: if there is no such config.
  """
  config_names.check("reward", name, names())
  entry = ENTRIES[name]
  task = entry.get("task", CHAIN)
  changes = {"rollout.sampler": entry.get("sampler", "")}
  config = method_configs.on_task(
    entry.get("method", GRPO), _taught(task), changes
  )
  config.task = task
  terms = {
    key: term if isinstance(term, str) else defaults.term(**term)
    for key, term in entry.get("terms", {}).items()
  }
  config.mix = defaults.pay(
    entry.get("rule", "sum"), entry.get("steps", ""), **terms
  )
  return config


def base(task: str) -> ConfigDict:
  """The supervised config whose policy the runs of a task start from.

  Args:
    task: a task, with its settings, on which the base policy does not depend.

  Raises:
    ValueError: if the task has no base policy.
  """
  config = method_configs.base(_taught(task))
  config.task = task
  return config


def _taught(task: str) -> str:
  """Returns the task whose demonstrations teach the base policy of `task`."""
  return _TAUGHT_BY.get(spec.parse(task)[0], task)
