"""A score of a sample from the step scores of a fitted process reward model."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import UsageError, masked, registry, types
from rl.transforms import transform

Array = jax.Array


def _last(p: Array, exists: Array) -> Array:
  last = jnp.maximum(exists.sum(-1, keepdims=True) - 1, 0)
  return jnp.take_along_axis(p, last, -1)[..., 0]


# Functions of the probabilities of right steps and their mask, [..., K].
RULES = {
  "mean": masked.mean,
  "product": lambda p, exists: jnp.prod(jnp.where(exists, p, 1.0), -1),
  "worst": masked.min,
  "best": masked.max,
  "sum": lambda p, exists: jnp.sum(jnp.where(exists, p, 0.0), -1),
  "last": _last,
}


@transform(
  takes="none",
  gives="sample",
  needs=lambda model="prm", **_: {base.model_scores(model)},
)
def model_outcome(
  _, rollout: types.Rollout, *, model: str = "prm", rule: str = "mean"
) -> Array:
  """Returns an aggregate of p_k = (s_k + 1) / 2 over the steps of a sample.

    mean     1/K sum_k p_k          worst    min_k p_k
    product  prod_k p_k             best     max_k p_k
    sum      sum_k p_k              last     p_K

  s_k is the score of step k by the model, and p_k the probability of a right
  step if the model predicts classes. A further step lowers the product, raises
  the sum, and can only lower the worst and raise the best. The value is 0 for a
  sample without steps.
  Source: Pan et al. 2023, Let's Reinforce Step by Step, which compares mean,
  product and maximum; in their experiments the mean was the best of them.

  Args:
    model: name of the model, a key of `config.models`.
    rule: a key of `RULES`.

  Raises:
    UsageError: the rule is unknown.
  """
  if rule not in RULES:
    raise UsageError(registry.describe_unknown("rule", rule, RULES))
  exists = rollout.valid("step")
  scores = base.zero_outside(rollout.extras[base.model_scores(model)], exists)
  values = RULES[rule]((scores + 1) / 2, exists)
  return jnp.where(exists.any(-1), values, 0.0)
