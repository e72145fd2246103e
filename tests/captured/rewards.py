"""Records every reward that a config can name, and every way of combining them.

A binding is applied to the fixed rollouts at two training steps, with what it
reads besides in the extras; its state is carried from the first to the second.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from captured import code, methods, rollouts

PHRASES = (((4,),), ((2, 3), (1, 0)))  # of token ids
GREEDY = "sampler/greedy_scores"
# What each reward is given: settings without a default first, then changes,
# each recorded by itself.
REWARDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
  "adaptive_token_price": (
    {},
    {"price": 0.05, "reference": 0.1, "rate": 0.5},
  ),
  "all_conditions": (
    {"conditions": ("style", "thoughts")},
    {"threshold": 0.2},
  ),
  "answer_consistency": (
    {},
    {
      "consistent_right": 0.9,
      "inconsistent_right": 0.3,
      "consistent_wrong": 0.1,
    },
  ),
  "arctan": ({"references": GREEDY}, {"of": "style"}),
  "brier": ({"forecast": "forecast", "stated": "stated"}, {}),
  "calibrated": (
    {"model": "style", "phrases": "thoughts"},
    {"below": 0.3, "weight": 0.5},
  ),
  "ceiling": ({"highest": 0.4}, {"of": "style"}),
  "centered": ({"references": GREEDY}, {"of": "style"}),
  "charged_where_easy": ({}, {"fraction": 0.6, "alpha": 0.5}),
  "clipped": ({}, {"of": "style"}),
  "clipped_confidence": ({}, {"low": 0.3, "high": 0.4, "wrong_weight": 0.5}),
  "cluster_share": ({}, {"low": 0.3, "high": 0.6}),
  "coins": ({}, {"probability": 0.2}),
  "component": ({"of": "style"}, {"of": "format"}),
  "concise": ({"conciseness": "style"}, {"alpha": 0.5}),
  "debiased_probability": ({}, {"format_weight": 0.5}),
  "dimension_level": (
    {"relevances": ("style", "forecast"), "coherence": "thoughts"},
    {"weights": (0.2, 0.3, 0.5)},
  ),
  "distinct_ngrams": ({}, {"n": 2}),
  "ensemble": (
    {"members": ("thoughts", "style", "accuracy"), "rule": "worst"},
    {
      "rule": ("mean", "median", "less_spread", "less_variance"),
      "center": True,
    },
  ),
  "flaw_aware": ({"flawed": "thoughts"}, {"weight": 0.5}),
  "flipped_groups": ({"probability": 0.5}, {"probability": 0.2}),
  "instead_of_nothing": ({"phrases": "thoughts"}, {"weight": 0.5}),
  "late_preference": ({"references": GREEDY}, {"of": "style"}),
  "length_charge": ({"free": 4}, {"free": 5, "price": 0.5}),
  "log_sigmoid": ({"references": GREEDY}, {"component": "style"}),
  "majority": ({}, {"threshold": 0.6}),
  "min_max": ({}, {"of": "style"}),
  "model_outcome": (
    {},
    {"rule": ("product", "worst", "best", "sum", "last")},
  ),
  "model_steps": ({"model": "prm"}, {"look_ahead": 0.5}),
  "negative_entropy": ({}, {"unanswered": -3.0}),
  "normalized_steps": ({}, {"eps": 0.5}),
  "novelty_bonus": (
    {"size": rollouts.V + 1},
    {"seed": 1, "share": 0.5, "rate": 0.1},
  ),
  "opposite": ({}, {"of": "style"}),
  "outcome_centered": ({}, {"beta": 0.5}),
  "phase_entropy": ({"thought_end": 4}, {"thought_end": 2, "alpha": 0.5}),
  "polynomial": ({"references": GREEDY}, {"of": "style"}),
  "posterior": ({"thoughts": "thoughts"}, {}),
  "preference": ({"references": GREEDY}, {"of": "style"}),
  "reasoning_patterns": (
    {"phrases": PHRASES, "enough": 2},
    {"enough": 1, "repeated": 2, "speakers": (((3,),),)},
  ),
  "regularized_relevance": (
    {"to_question": "style", "to_reference": "thoughts", "is_open": "format"},
    {"slope": 0.5, "offset": 0.1},
  ),
  "relative_length": ({}, {"alpha": 0.5}),
  "says": ({"phrases": PHRASES}, {"fences": (((1,),),)}),
  "self_aligned_reward": ({}, {"weight": 0.5}),
  "significant_gains": (
    {},
    {"threshold": 0.3, "gamma": 0.5, "look_ahead": 1},
  ),
  "standardized": ({}, {"of": "style"}),
  "stratified": ({"model": "style"}, {"alpha": 0.2, "beta": 0.2}),
  "stretched_with_progress": (
    {"over": 100},
    {"over": 200, "of": "style", "least": 0.2},
  ),
  "tanh": ({"references": GREEDY}, {"of": "style"}),
  "trusted": (
    {"thoughts": "thoughts"},
    {"weight": 0.6, "horizon": 50.0},
  ),
  "verdict": ({}, {"wrong": -0.5}),
}
STEPS = (0, 60)


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  built = {
    f"reward:{code.recorded_name(name)}": functools.partial(_reward, name)
    for name in code.find("rewards", "names")()
  }
  rules = code.find("combine", "RULES")
  built |= {
    f"combination:{name}": functools.partial(_combination, name)
    for name in rules
  }
  built["combination:weights"] = _weights
  built["combination:within a train step"] = _learned
  built |= {
    f"reward config:{name}": functools.partial(_paid, config)
    for name, config in code.configs().items()
    if name.startswith("reward:")
  }
  return built


def _reward(name: str) -> dict[str, Any]:
  get = code.find("rewards", "get")
  settings, changes = REWARDS.get(name, ({}, {}))
  defined = inspect.signature(code.reward_factories()[name]).parameters
  settings, changes = (
    {code.present_setting(key, defined): value for key, value in x.items()}
    for x in (settings, changes)
  )
  recorded = {code.present_setting(key, defined): key for key in code.SETTINGS}
  variants = {"example": settings}
  for key, value in changes.items():
    several = isinstance(value, tuple) and key == "rule"
    for number, one in enumerate(value if several else (value,)):
      label = recorded.get(key, key)
      label = label if number == 0 else f"{label}/{number}"
      variants[label] = {**settings, key: one}
  results = {}
  for label, variant in variants.items():
    results[label] = _applied(get(name, **variant))
  unvaried = [key for key in defined if key not in {**settings, **changes}]
  results["unvaried"] = ", ".join(unvaried)
  return results


def with_needs(rollout: Any, needs: Any) -> Any:
  """The rollout with the passes that a reward reads, of the tabular policy."""
  parameters = {"old": rollouts.params(3), "ref": rollouts.params(4)}
  passes = code.load("probes").passes
  return passes(rollouts.policy(), parameters, needs, rollout)


def _applied(transform: Any) -> dict[str, Any]:
  state = transform.init()
  results = {}
  for index, step in enumerate(STEPS):
    rollout = with_needs(rollouts.rollout(index, step), transform.needs)
    value, state = transform.apply(None, rollout, state)
    results[str(index)] = {"value": value, "state": state}
  return results


def _mix() -> Callable:
  """The function that builds one reward of several."""
  return code.either(code.load("mix"), "mix", "make_reward")


def _part(name: str, weight: Any = 1.0, gates: Any = (), threshold: Any = 0.5):
  """A part of a reward, whose gates and threshold were once names of parts."""
  Part = code.find("combine", "Part", "Term")
  if "threshold" in Part._fields:
    return Part(name, weight, tuple(gates), threshold)
  return Part(name, weight, tuple(dict(gates).items()))


def _gates(**thresholds: float) -> Any:
  """Gates by name; a part once had the threshold itself."""
  Part = code.find("combine", "Part", "Term")
  return tuple(thresholds) if "threshold" in Part._fields else thresholds


def _combination(rule: str) -> dict[str, Any]:
  """A rule with weights, gates and schedules, as a function and as a reward."""
  combine, mix = code.find("combine", "combine"), _mix()
  get = code.find("rewards", "get")
  values = {
    name: jnp.asarray(rollouts.arrays()[name], jnp.float32)
    for name in ("accuracy", "format", "style")
  }
  valid = jnp.asarray(rollouts.arrays()["sample_mask"])
  ungated = (_part("accuracy"), _part("format", 0.3), _part("style", 0.0))
  gates = _gates(accuracy=0.2, format=0.5)
  gated = (
    _part("accuracy", 0.5, (), 0.2),
    _part("style", lambda step: 1.0 - step / 100, gates),
  )
  results = {
    "plain": combine(values, ungated, rule, 0, valid),
    "gated": combine(values, gated, rule, 60, valid),
    "without a mask": combine(values, gated, rule, 60),
  }
  rewards = {
    "vote": get("majority"),
    "price": get("adaptive_token_price", price=0.1),
  }
  terms = (
    _part("vote", 0.7),
    _part("price", lambda step: 1.0 - step / 100, _gates(vote=0.5)),
    _part("format", 0.2),
  )
  steps = get("normalized_steps")
  reward = mix(rewards, terms, rule, steps)
  results["reward"] = _rewarded(reward)
  return results


def _learned() -> dict[str, Any]:
  """Train steps of methods that a reward pays, one of them with a NaN score."""
  get = code.find("rewards", "get")
  mix, library = _mix(), code.load("methods")
  rewards = {
    "vote": get("majority"),
    "price": get("adaptive_token_price", price=0.1),
  }
  price = _part("price", 0.5, _gates(vote=0.5))
  terms = (_part("vote"), price, _part("style", 0.2))
  steps = get("normalized_steps")
  results = {}
  for name, reward in (
    ("grpo", mix(rewards, terms)),
    ("sum_form", mix({}, (), "sum", steps)),
    (
      "grpo",
      mix({"log": get("log_sigmoid", references=GREEDY)}, (_part("log"),)),
    ),
  ):
    method = dataclasses.replace(library.get(name), reward=reward)
    for case in ("plain", "nan_score"):
      label = (
        f"{name} > {len(code.either(reward, 'parts', 'terms'))} terms > {case}"
      )
      results[label] = methods.steps({"policy": method}, case)
  return results


def _rewarded(reward: Any) -> dict[str, Any]:
  """Returns the scores of two rollouts, and the weights of the terms."""
  states, needs = code.start_reward(reward)
  taken = {name for name, _ in code.either(reward, "parts", "terms")}
  results = {}
  for index, step in enumerate(STEPS):
    rollout = with_needs(rollouts.rollout(index, step), needs)
    parts = rollout.components
    parts = {name: parts[name] for name in parts if name not in taken}
    paid, states = reward.apply(rollout.replace(components=parts), states)
    results[str(index)] = {
      "scores": paid.scores,
      "components": paid.components,
      "step_scores": paid.step_scores,
      "weights": reward.weights(jnp.int32(step)),
      # By order, as the record has them.
      "state": tuple(states.values()) if isinstance(states, dict) else states,
    }
  return results


def _weights() -> dict[str, Any]:
  """Weights of terms over training, by the schedules that a config can name."""
  make = code.find("rewards of configs", "make_reward")
  if not hasattr(code.load("common config"), "term"):  # rewards are expressions
    courses = {"constant": "0.8"}
    courses |= {name: f"{name}(0.8, 0.1, 10)" for name in ("linear", "cosine")}
    made = {n: make({"reward": f"{w} * coins()"}) for n, w in courses.items()}
    return {
      name: [reward.weights(jnp.int32(step)) for step in (0, 3, 10, 20)]
      for name, reward in made.items()
    }
  pay = code.either(code.load("common config"), "pay", "reward")
  term = code.find("common config", "term")
  results = {}
  for schedule in ("constant", "linear", "cosine"):
    over = code.present_setting("over", inspect.signature(term).parameters)
    course = {} if schedule == "constant" else {over: 10, "final": 0.1}
    one = term("coins()", 0.8, schedule=schedule, **course)
    reward = make(pay(coins=one))
    results[schedule] = [
      reward.weights(jnp.int32(step)) for step in (0, 3, 10, 20)
    ]
  return results


def _paid(make: Callable) -> dict[str, Any]:
  """Returns the scores of a config's reward, with gates, weights and steps."""
  config = make()
  block = code.either(config, "mix", "reward")
  # Once a block, now an expression beside that of the step rewards.
  block = config if isinstance(block, str) else block
  return _rewarded(code.find("rewards of configs", "make_reward")(block))
