"""Combines several rewards: named parts with weights and gates, and a rule.

`make_reward` makes one reward of several rewards of a rollout, for a method;
`combine` does the same for arrays. A rule turns the values r_m of M parts, with
weights w_m, into a total:

  weighted_sum             sum_m w_m r_m; a sum of log-probabilities, which the
                           reward `log_sigmoid` returns, is large only if all
                           of them are
  weighted_z_scores        sum_m w_m z(r_m), with z-scores over the S samples of
                           a prompt (the group), so that the variance of a part
                           does not matter
  weighted_product         prod_m r_m^{w_m}
  weighted_geometric_mean  (prod_m r_m^{w_m})^{1 / sum_m w_m}
  worst                    min_m r_m over the parts of nonzero weight

A policy can raise a weighted sum through the part that is easiest to raise. A
necessary condition belongs in a gate, a product or the minimum. A gate of a
part is another reward that must exceed its threshold, or the part is 0.

Each part is logged after its gates, together with its weight, so the total can
be computed from the log: `total == rule(values, weights, valid)`. For the rule
"sum" this also holds for the logged means: `reward/mean` is the sum over parts
m of `reward/weight/m` times `score/m/mean`.

Usage:
  parts = (Part("right"), Part("short", 0.1, gates=(("right", 0.5),)))
  rewards = {"right": get("verdict"), "short": get("length_charge")}
  method = dataclasses.replace(method, reward=make_reward(rewards, parts))

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
from rl import UsageError, advantages, masked, registry, types
from rl.reward import Reward
from rl.transforms import Transform

Array = jax.Array
# training step -> weight, for example an optax schedule.
Schedule = Callable[[Array], Array]
Values = Sequence[Array] | Array  # M arrays [..., S], or [M, ..., S]
# (values, weights [M], valid [..., S]) -> [..., S]
Rule = Callable[[Values, Array, Array], Array]


class Part(NamedTuple):
  """One of several rewards of a total.

  Attributes:
    name: name of the reward.
    weight: a number, or a function of the training step.
    gates: `((name, threshold), ...)`. For samples for which one of these other
      rewards does not exceed its threshold, this part is 0 and its value is not
      read.
  """

  name: str
  weight: float | Schedule = 1.0
  gates: tuple[tuple[str, float], ...] = ()


class Combined(NamedTuple):
  """A total and its parts.

  Attributes:
    total: `[..., S]` float32, one number per sample.
    values: `{name: [..., S]}`, values of the parts after the gates.
    weights: `{name: []}`, weights of the parts at this training step.
  """

  total: Array
  values: dict[str, Array]
  weights: dict[str, Array]


# Rules. They loop over parts instead of stacking them: on a CPU, reducing the
# first axis of a stacked array is about a hundred times slower.


def weighted_sum(values: Values, weights: Array, valid: Array) -> Array:
  """Returns sum_m w_m r_m."""
  del valid
  summands = [w * r for w, r in zip(weights, values, strict=True)]
  return functools.reduce(operator.add, summands)


def weighted_z_scores(values: Values, weights: Array, valid: Array) -> Array:
  """Returns sum_m w_m z_m with z_m = (r_m - mean) / (std + 1e-6) (ddof 1).

  Mean and std are those of part m over the valid samples of the group. A part
  that is constant in the group adds 0. Rescaling a part makes no difference (up
  to the 1e-6).
  """
  normalized = [advantages.group_normalize(r, valid) for r in values]
  return weighted_sum(normalized, weights, valid)


def weighted_product(values: Values, weights: Array, valid: Array) -> Array:
  """Returns prod_m max(r_m, 0)^{w_m} over the parts of nonzero weight."""
  logs = [jnp.log(jnp.where(r > 0, r, 1.0)) for r in values]
  possible = [(r > 0) | (w == 0) for w, r in zip(weights, values, strict=True)]
  product = jnp.exp(weighted_sum(logs, weights, valid))
  return jnp.where(functools.reduce(operator.and_, possible), product, 0.0)


def weighted_geometric_mean(
  values: Values, weights: Array, valid: Array
) -> Array:
  """Returns (prod_m max(r_m, 0)^{w_m})^{1 / sum_m w_m}.

  It is on the scale of the parts. If the weights sum to 0, there is no root.
  """
  total = weights.sum()
  share = weights / jnp.where(total != 0, total, 1.0)
  return weighted_product(values, share, valid)


def worst(values: Values, weights: Array, valid: Array) -> Array:
  """Returns min_m r_m over the parts of nonzero weight; 0 if there is none."""
  del valid
  candidates = [
    jnp.where(w != 0, r, jnp.inf) for w, r in zip(weights, values, strict=True)
  ]
  lowest = functools.reduce(jnp.minimum, candidates)
  return jnp.where((weights != 0).any(), lowest, 0.0)


def _weight_at(weight: float | Schedule, step: Array | int) -> Array:
  """Returns the value of a weight at a training step, `[]` float32."""
  value = weight(jnp.asarray(step)) if callable(weight) else weight
  return jnp.asarray(value, jnp.float32)


def weights_at(parts: Sequence[Part], step: Array | int) -> dict[str, Array]:
  """Returns each part's weight at a training step, `{name: []}` float32."""
  return {part.name: _weight_at(part.weight, step) for part in parts}


RULES: dict[str, Rule] = {
  "sum": weighted_sum,
  "z_scores": weighted_z_scores,
  "product": weighted_product,
  "geometric_mean": weighted_geometric_mean,
  "min": worst,
}


def combine(
  values: Mapping[str, Array],
  parts: Sequence[Part],
  rule: str = "sum",
  step: Array | int = 0,
  valid: Array | None = None,
) -> Combined:
  """Combines several parts into a total with the rule `RULES[rule]`.

  Args:
    values: `{name: [..., S]}`, values of the parts and of their gates.
    parts: the parts of the total. A gate need not be a part.
    rule: key of `RULES`.
    step: training step, for weights that are schedules.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `Combined`, with a total of 0 for samples that do not exist.

  Raises:
    UsageError: there are no parts, two parts have the same name, the rule is
      unknown, or a part or gate has no values.
  """
  if rule not in RULES:
    raise UsageError(registry.describe_unknown("rule", rule, RULES))
  names = [part.name for part in parts]
  if not parts or len(set(names)) < len(names):
    raise UsageError(
      "Expected at least one part and distinct names of parts, got the names "
      f"{names}."
    )
  gates = (gate for part in parts for gate, _ in part.gates)
  for name in (*names, *gates):
    if name not in values:
      raise UsageError(
        registry.describe_unknown("reward", name, sorted(values))
      )
  valid = masked.mask_or_ones(jnp.asarray(values[names[0]]), valid)
  gated_values, weights = {}, weights_at(parts, step)
  for part in parts:
    mask = valid
    for gate, threshold in part.gates:
      mask = mask & (values[gate] > threshold)
    gated_values[part.name] = base.zero_outside(values[part.name], mask)
  total = RULES[rule](
    list(gated_values.values()), jnp.stack(list(weights.values())), valid
  )
  return Combined(jnp.where(valid, total, 0.0), gated_values, weights)


def make_reward(
  rewards: Mapping[str, Transform],
  parts: Sequence[Part] = (),
  rule: str = "sum",
  step_reward: Transform | None = None,
) -> Reward:
  """Builds one reward of a rollout that combines several rewards.

  Each reward becomes a component of the rollout, with its value after the gates
  and before multiplication by its weight.

  Args:
    rewards: `{name: transform}`, rewards of the parts and of their gates, each
      with one score per sample. They are computed in this order.
    parts: the parts of the total. If empty, the total is the task's score. A
      part or gate that is not a key of `rewards` is a component of the task.
    rule: key of `RULES`.
    step_reward: reward with one score per step, which replaces the step scores
      of the task. None keeps the step scores of the task.

  Returns:
    A `Reward`. Its `total` raises UsageError if a part or a gate has no values.

  Raises:
    UsageError: the rule is unknown, or two parts have the same name.
  """
  if rule not in RULES:
    raise UsageError(registry.describe_unknown("rule", rule, RULES))
  names = [part.name for part in parts]
  if len(set(names)) < len(names):
    raise UsageError(f"Expected distinct names of parts, got {names}.")
  parts = tuple(parts)

  def total(
    components: Mapping[str, Array], rollout: types.Rollout
  ) -> tuple[Array, Mapping[str, Array]]:
    """Returns the total [P, S], and the components after their gates."""
    if not parts:
      return rollout.scores, components
    combined = combine(
      components, parts, rule, rollout.step, rollout.sample_mask
    )
    return combined.total, {**components, **combined.values}

  return Reward(
    parts=tuple(rewards.items()),
    total=total,
    weights=lambda step: weights_at(parts, step),
    steps=step_reward,
    name=f"{rule} of {', '.join(names)}" if parts else "the task's score",
  )
