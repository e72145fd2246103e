"""Combines several rewards: named terms with weights and gates, and a rule.

`mix` makes one reward of several rewards of a rollout, for a method; `combine`
does the same for arrays. A rule turns the values of M terms into a total:

  weighted_sum             sum_m w_m r_m; for r = log sigmoid a soft "and"
  weighted_z_scores        sum_m w_m z(r_m), with z-scores within the group, so
                           that a term of small variance counts too
  weighted_product         prod_m r_m^{w_m}
  weighted_geometric_mean  (prod_m r_m^{w_m})^{1 / sum w}
  worst                    min_m r_m over the terms of nonzero weight

A policy can raise a weighted sum through its cheapest term. What is necessary
belongs in a gate, a product or the minimum.

Each term is logged as the rule reads it, with its weight, so the total can be
computed from the log: `total == rule(stack(values), stack(weights))`. For the
rule "sum" this also holds for the logged means, `reward/mean == sum_m
reward/weight/m * score/m/mean`.

Usage:
  terms = (Term("right"), Term("short", 0.1, gates=("right",)))
  rewards = {"right": get("verdict"), "short": get("length_charge")}
  method = dataclasses.replace(method, reward=mix(rewards, terms))

Source: this codebase; the z-scores are those of Liu et al. 2026, GDPO: Group
reward-Decoupled Normalization Policy Optimization, without its whitening.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards import base
from rl import advantages, masked, registry, types
from rl.reward import Reward
from rl.transforms import Transform

Array = jax.Array
# step -> weight, for example an optax schedule.
Schedule = Callable[[Array], Array]
Values = Sequence[Array] | Array  # M arrays [..., S], or [M, ..., S]
# (values, weights [M], valid [..., S]) -> [..., S]
Rule = Callable[[Values, Array, Array], Array]


class Term(NamedTuple):
  """One of several rewards.

  Attributes:
    name: name of the reward.
    weight: a number, or a function of the training step.
    gates: names of other rewards that must exceed their threshold. If one of
      them does not, this term is 0 and its value is not read.
    threshold: value that this reward must exceed when it is a gate.
  """

  name: str
  weight: float | Schedule = 1.0
  gates: tuple[str, ...] = ()
  threshold: float = 0.5


class Combined(NamedTuple):
  """A total and its terms.

  Attributes:
    total: `[..., S]` float32.
    values: `{name: [..., S]}`, values of the terms after the gates.
    weights: `{name: []}`, weights of the terms at this step.
  """

  total: Array
  values: dict[str, Array]
  weights: dict[str, Array]


# Rules. They loop over terms because a CPU reduces the first axis of one array
# about a hundred times more slowly.


def weighted_sum(values: Values, weights: Array, valid: Array) -> Array:
  """sum_m w_m r_m."""
  del valid
  parts = [w * r for w, r in zip(weights, values, strict=True)]
  return functools.reduce(operator.add, parts)


def weighted_z_scores(values: Values, weights: Array, valid: Array) -> Array:
  """sum_m w_m z_m, z_m = (r_m - mean) / (std + 1e-6) within the group.

  A term that is constant in the group adds 0. Rescaling a term makes no
  difference (up to the 1e-6).
  """
  normalized = [advantages.group_normalize(r, valid) for r in values]
  return weighted_sum(normalized, weights, valid)


def weighted_product(values: Values, weights: Array, valid: Array) -> Array:
  """prod_m max(r_m, 0)^{w_m} over the terms of nonzero weight."""
  logs = [jnp.log(jnp.where(r > 0, r, 1.0)) for r in values]
  possible = [(r > 0) | (w == 0) for w, r in zip(weights, values, strict=True)]
  product = jnp.exp(weighted_sum(logs, weights, valid))
  return jnp.where(functools.reduce(operator.and_, possible), product, 0.0)


def weighted_geometric_mean(
  values: Values, weights: Array, valid: Array
) -> Array:
  """(prod_m max(r_m, 0)^{w_m})^{1 / sum w}, on the scale of the terms."""
  total = weights.sum()
  share = weights / jnp.where(total != 0, total, 1.0)
  return weighted_product(values, share, valid)


def worst(values: Values, weights: Array, valid: Array) -> Array:
  """min_m r_m over the terms of nonzero weight; 0 if all weights are 0."""
  del valid
  candidates = [
    jnp.where(w != 0, r, jnp.inf) for w, r in zip(weights, values, strict=True)
  ]
  lowest = functools.reduce(jnp.minimum, candidates)
  return jnp.where((weights != 0).any(), lowest, 0.0)


def _at(weight: float | Schedule, step: Array | int) -> Array:
  """The value of a weight at a training step, `[]` float32."""
  value = weight(jnp.asarray(step)) if callable(weight) else weight
  return jnp.asarray(value, jnp.float32)


def weights_at(terms: Sequence[Term], step: Array | int) -> dict[str, Array]:
  """The weight of each term at a training step, `{name: []}` float32."""
  return {term.name: _at(term.weight, step) for term in terms}


RULES: dict[str, Rule] = {
  "sum": weighted_sum,
  "z_scores": weighted_z_scores,
  "product": weighted_product,
  "geometric_mean": weighted_geometric_mean,
  "min": worst,
}


def combine(
  values: Mapping[str, Array],
  terms: Sequence[Term],
  rule: str = "sum",
  step: Array | int = 0,
  valid: Array | None = None,
) -> Combined:
  """Returns the total of several terms by `RULES[rule]`.

  Args:
    values: `{name: [..., S]}`, values of the terms and of their gates.
    terms: the terms of the total. A gate need not be a term; one that is only a
      key of `values` has the threshold 1/2.
    rule: key of `RULES`.
    step: training step, for weights that are schedules.
    valid: `[..., S]` bool, mask of samples; None means all samples.

  Returns:
    `Combined`, with a total of 0 for masked samples.

  Raises:
    ValueError: there are no terms, two terms have the same name, or the rule is
      unknown.
    KeyError: a term or gate has no values.
  """
  if rule not in RULES:
    raise ValueError(registry.describe_unknown("rule", rule, RULES))
  names = [term.name for term in terms]
  twice = sorted({name for name in names if names.count(name) > 1})
  if not terms or twice:
    raise ValueError(
      f"Expected at least one term and distinct names, got the terms {names}."
    )
  for name in (*names, *(gate for term in terms for gate in term.gates)):
    if name not in values:
      raise KeyError(registry.describe_unknown("reward", name, sorted(values)))
  thresholds = {term.name: term.threshold for term in terms}
  valid = masked.mask_or_ones(jnp.asarray(values[names[0]]), valid)
  gated_values, weights = {}, weights_at(terms, step)
  for term in terms:
    mask = valid
    for gate in term.gates:
      mask = mask & (values[gate] > thresholds.get(gate, 0.5))
    gated_values[term.name] = base.zero_outside(values[term.name], mask)
  total = RULES[rule](
    list(gated_values.values()), jnp.stack(list(weights.values())), valid
  )
  return Combined(jnp.where(valid, total, 0.0), gated_values, weights)


def mix(
  rewards: Mapping[str, Transform],
  terms: Sequence[Term] = (),
  rule: str = "sum",
  steps: Transform | None = None,
) -> Reward:
  """Returns one reward of a rollout that combines several.

  Each reward becomes a component of the rollout, after its gates and before its
  weight.

  Args:
    rewards: `{name: none -> sample}`, rewards of the terms and of their gates,
      computed in this order.
    terms: the terms of the total; without any the score of the task stays. A
      term or gate that is not a key of `rewards` is a component of the task.
    rule: key of `RULES`.
    steps: none -> step, step scores that replace those of the task.

  Raises:
    ValueError: the rule is unknown, or two terms have the same name.
  """
  if rule not in RULES:
    raise ValueError(registry.describe_unknown("rule", rule, RULES))
  names = [term.name for term in terms]
  twice = sorted({name for name in names if names.count(name) > 1})
  if twice:
    raise ValueError(f"Expected distinct names of terms, got {names}.")
  terms = tuple(terms)

  def total(
    components: Mapping[str, Array], rollout: types.Rollout
  ) -> tuple[Array, Mapping[str, Array]]:
    if not terms:
      return rollout.scores, components
    try:
      combined = combine(
        components, terms, rule, rollout.step, rollout.sample_mask
      )
    except KeyError as error:
      raise ValueError(error.args[0]) from None
    return combined.total, {**components, **combined.values}

  return Reward(
    terms=tuple(rewards.items()),
    total=total,
    weights=lambda step: weights_at(terms, step),
    steps=steps,
    name=f"{rule} of {', '.join(names)}" if terms else "the task's score",
  )
