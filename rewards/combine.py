"""Several rewards as one: named terms, weights, gates, and a rule.

Each term is logged as it went into the rule, with its weight, so the total can
be computed again from the log: `total == rule(stack(values), stack(weights))`.

  weighted_sum            sum_m w_m r_m; with r = log sigmoid it is a soft "and"
  weighted_z_scores       sum_m w_m z(r_m), z within the group: a term of small
                          variance is not swamped (GDPO without its whitening)
  weighted_product        prod_m r_m^{w_m}
  weighted_geometric_mean (prod_m r_m^{w_m})^{1 / sum w}
  worst                   min_m r_m, weights ignored but for 0, which leaves out

A weighted sum can be hacked through its cheapest term: what is to be necessary
belongs in a gate, a product or the minimum.

Usage:
  terms = (Term("correct", 1.0), Term("style", 0.2, gates=("correct",)))
  found = combine({"correct": ok, "style": style}, terms, step=rollout.step)

Source: this codebase; the z-scores are those of Liu et al. 2026, GDPO: Group
reward-Decoupled Normalization Policy Optimization.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import advantages, choices, masked

Array = jax.Array
# step -> weight; optax's schedules are such functions.
Schedule = Callable[[Array], Array]
Values = Sequence[Array] | Array  # M terms [..., S] each, or [M, ..., S]
# (values, weights [M], valid [..., S]) -> [..., S]
Rule = Callable[[Values, Array, Array], Array]


class Term(NamedTuple):
  """One reward of several.

  Attributes:
    name: of its values.
    weight: a number, or a function of the training step.
    gates: names of other rewards that must exceed their threshold; if one does
      not, this term is 0 and nothing of it is read.
    threshold: what this reward must exceed where it is a gate.
  """

  name: str
  weight: float | Schedule = 1.0
  gates: tuple[str, ...] = ()
  threshold: float = 0.5


class Combined(NamedTuple):
  """A total, and what it was made of.

  Attributes:
    total: `[..., S]` float32.
    values: `{name: [..., S]}`, after the gates.
    weights: `{name: []}` of this step.
  """

  total: Array
  values: dict[str, Array]
  weights: dict[str, Array]


# A rule goes term by term: to reduce the first axis of one array is what a CPU
# does a hundred times more slowly.


def weighted_sum(values: Values, weights: Array, valid: Array) -> Array:
  """sum_m w_m r_m."""
  del valid
  parts = [w * r for w, r in zip(weights, values, strict=True)]
  return functools.reduce(operator.add, parts)


def weighted_z_scores(values: Values, weights: Array, valid: Array) -> Array:
  """sum_m w_m z_m, z_m = (r_m - mean) / (std + 1e-6) within the group.

  A term that is constant in the group adds 0 there. Rescaling a term changes
  nothing (up to the 1e-6).
  """
  normalized = [advantages.group_normalize(r, valid) for r in values]
  return weighted_sum(normalized, weights, valid)


def weighted_product(values: Values, weights: Array, valid: Array) -> Array:
  """prod_m max(r_m, 0)^{w_m}; a term of weight 0 is left out."""
  logs = [jnp.log(jnp.where(r > 0, r, 1.0)) for r in values]
  possible = [(r > 0) | (w == 0) for w, r in zip(weights, values, strict=True)]
  product = jnp.exp(weighted_sum(logs, weights, valid))
  return jnp.where(functools.reduce(operator.and_, possible), product, 0.0)


def weighted_geometric_mean(
  values: Values, weights: Array, valid: Array
) -> Array:
  """(prod_m max(r_m, 0)^{w_m})^{1 / sum w}: on the scale of its terms."""
  total = weights.sum()
  share = weights / jnp.where(total != 0, total, 1.0)
  return weighted_product(values, share, valid)


def worst(values: Values, weights: Array, valid: Array) -> Array:
  """min_m r_m over the terms whose weight is not 0; 0 of none."""
  del valid
  counted = [
    jnp.where(w != 0, r, jnp.inf) for w, r in zip(weights, values, strict=True)
  ]
  lowest = functools.reduce(jnp.minimum, counted)
  return jnp.where((weights != 0).any(), lowest, 0.0)


def _at(weight: float | Schedule, step: Array | int) -> Array:
  """A weight's value at a training step, `[]` float32."""
  value = weight(jnp.asarray(step)) if callable(weight) else weight
  return jnp.asarray(value, jnp.float32)


def weights_at(terms: Sequence[Term], step: Array | int) -> dict[str, Array]:
  """`{name: []}` float32, each term's weight at a training step."""
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
  """The terms' total by `RULES[rule]`.

  Args:
    values: `{name: [..., S]}`, of the terms and of their gates.
    terms: what counts, and how much. A gate need not be a term: a name of
      `values` alone has the threshold 1/2.
    rule: one of `RULES`.
    step: of the training, for weights that are schedules.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `Combined`, 0 of what is invalid.

  Raises:
    ValueError: no terms, two of one name, or an unknown rule.
    KeyError: a term or gate that has no values.
  """
  if rule not in RULES:
    raise ValueError(choices.unknown("rule", rule, RULES))
  names = [term.name for term in terms]
  twice = sorted({name for name in names if names.count(name) > 1})
  if not terms or twice:
    raise ValueError(
      f"terms {names} must be one or more of different names; "
      f"{f'given twice: {twice}' if twice else 'none given'}"
    )
  for name in (*names, *(gate for term in terms for gate in term.gates)):
    if name not in values:
      raise KeyError(choices.unknown("reward", name, sorted(values)))
  thresholds = {term.name: term.threshold for term in terms}
  valid = masked.all_valid(jnp.asarray(values[names[0]]), valid)
  kept, weights = {}, weights_at(terms, step)
  for term in terms:
    counted = valid
    for gate in term.gates:
      counted = counted & (values[gate] > thresholds.get(gate, 0.5))
    kept[term.name] = present(values[term.name], counted)
  total = RULES[rule](
    list(kept.values()), jnp.stack(list(weights.values())), valid
  )
  return Combined(jnp.where(valid, total, 0.0), kept, weights)
