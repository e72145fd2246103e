"""Several rewards of a rollout as one: `rl.reward.Reward` of named terms.

Each term becomes a component of the rollout, as it goes into the rule: gated,
not yet weighed. So every record of a sample, and the log of the weights, gives
the total again:

  total == combine.RULES[rule](stack(components), stack(weights), sample_mask)

and for the rule "sum" the logged means do, `reward/mean == sum_m
reward/weight/m * score/m/mean`.

Usage:
  rewards = {"right": sources.get("verdict"), "short": sources.get("length_charge")}
  terms = (Term("right"), Term("short", 0.1, gates=("right",)))
  method = dataclasses.replace(method, reward=mix(rewards, terms))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax

from rewards.combine import RULES, Term, combine, weights_at
from rl import choices, types
from rl.reward import Reward
from rl.transforms import Transform

Array = jax.Array


def mix(
  rewards: Mapping[str, Transform],
  terms: Sequence[Term] = (),
  rule: str = "sum",
  steps: Transform | None = None,
) -> Reward:
  """The reward of some terms.

  Args:
    rewards: `{name: none -> sample}`, of the terms and of their gates, in the
      order in which they are found.
    terms: what counts, and how much; none: the task's score stays what it is.
      A term or gate that is not among `rewards` is a component of the task.
    rule: one of `rewards.combine.RULES`.
    steps: none -> step, in place of the task's step scores.

  Raises:
    ValueError: an unknown rule, or two terms of one name.
  """
  if rule not in RULES:
    raise ValueError(choices.unknown("rule", rule, RULES))
  names = [term.name for term in terms]
  twice = sorted({name for name in names if names.count(name) > 1})
  if twice:
    raise ValueError(
      f"terms {names}: {twice[0]} is given twice; name each once"
    )
  terms = tuple(terms)

  def total(
    components: Mapping[str, Array], rollout: types.Rollout
  ) -> tuple[Array, Mapping[str, Array]]:
    if not terms:
      return rollout.scores, components
    try:
      found = combine(
        components, terms, rule, rollout.step, rollout.sample_mask
      )
    except KeyError as error:
      raise ValueError(error.args[0]) from None
    return found.total, {**components, **found.values}

  return Reward(
    terms=tuple(rewards.items()),
    total=total,
    weights=lambda step: weights_at(terms, step),
    steps=steps,
    name=f"{rule} of {', '.join(names)}" if terms else "the task's score",
  )
