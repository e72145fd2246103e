"""Shapes of a score relative to the scores of reference responses.

A reward model's score has no zero: it is meaningful only in comparison with the
score of an ordinary response, and far outside the range of its training data it
is unreliable. The study concludes that a shaped reward should be bounded, rise
steeply at first and flatten later, and be a function of the centered score.

Every function averages over the M reference responses to the prompt. One
response is enough; the study uses up to ten. All functions preserve the order
of the scores, except where they are flat.

Source: Fu et al. 2025, Reward Shaping to Mitigate Reward Hacking in RLHF (PAR),
and its code.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rewards import base
from rl import masked, types
from rl.scoring import Need
from rl.transforms import transform

Array = jax.Array


def against(
  shape: Callable[[Array], Array],
  scores: Array,
  references: Array,
  reference_mask: Array | None = None,
) -> Array:
  """mean_m shape(r - r_m), the form of all functions of this file.

  Args:
    shape: elementwise increasing function.
    scores: `[...]` r.
    references: `[..., M]` r_m, leading axes broadcast against `scores`.
    reference_mask: `[..., M]` bool, mask of references; None means all.

  Returns:
    `[...]` float32; 0 without any reference.
  """
  gaps = jnp.asarray(scores, jnp.float32)[..., None] - references
  mask = masked.mask_or_ones(references, reference_mask)
  mask = jnp.broadcast_to(mask, gaps.shape)
  return masked.mean(shape(base.zero_outside(gaps, mask)), mask)


def preference_scores(
  scores: Array,
  references: Array,
  reference_mask: Array | None = None,
  slope: float = 1.0,
) -> Array:
  """PAR: mean_m sigmoid(slope (r - r_m)), the probability to win against r_m.

  The result lies in (0, 1). It does not change if r and all r_m are shifted
  alike; exchanging r and a single r_m gives one minus the result.

  Args:
    scores: `[...]` r.
    references: `[..., M]` r_m.
    reference_mask: `[..., M]` bool, mask of references; None means all.
    slope: the study's k.

  Returns:
    `[...]` float32 in (0, 1).
  """

  def shape(gap: Array) -> Array:
    return jax.nn.sigmoid(slope * gap)

  return against(shape, scores, references, reference_mask)


def late_preference_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m sigmoid(r - 3 - r_m), which grows slowly at first.

  It is the counterexample of the study. Args and Returns are the same as in
  `preference_scores`.
  """
  return preference_scores(scores - 3.0, references, reference_mask)


def centered_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m (r - r_m), centered, unbounded; Args as in `preference_scores`."""
  return against(lambda gap: gap, scores, references, reference_mask)


def tanh_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m tanh(r - r_m), in (-1, 1); Args as in `preference_scores`."""
  return against(jnp.tanh, scores, references, reference_mask)


def arctan_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m arctan(r - r_m) in (-pi/2, pi/2); Args as in `preference_scores`."""
  return against(jnp.arctan, scores, references, reference_mask)


def polynomial_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m of a polynomial of degree 5 that fits the sigmoid on [-5, 5].

  A least-squares fit at 100 points; 0 below -5 and 1 above 5, with a small jump
  at both ends since the fit is not exact there. Args as in `preference_scores`.
  """
  grid = np.linspace(-5.0, 5.0, 100)
  coefficients = np.polyfit(grid, 1.0 / (1.0 + np.exp(-grid)), 5).tolist()

  def shape(gap: Array) -> Array:
    inside = jnp.clip(gap, -5.0, 5.0)
    value = jnp.zeros_like(inside)
    for coefficient in coefficients:  # Horner's rule
      value = value * inside + coefficient
    return jnp.where(gap <= -5.0, 0.0, jnp.where(gap >= 5.0, 1.0, value))

  return against(shape, scores, references, reference_mask)


# Rewards of a rollout. Their settings are
#   references: "task/NAME" or "sampler/NAME", scores of reference responses, [P]
#     or [P, M]; entries that are not finite do not count
#   component: a component to shape in place of the task's score


def _shape(
  function: Callable[[Array, Array, Array], Array],
  rollout: types.Rollout,
  references: str,
  component: str,
) -> Array:
  """Applies one of the functions above to the scores of a rollout."""
  scores = base.score(rollout, component)  # [P, S]
  values = jnp.asarray(rollout.extras[base.parse_need(references)])
  values = values.reshape(scores.shape[0], 1, -1)  # [P, 1, M]
  finite = jnp.isfinite(values)
  return function(scores, jnp.where(finite, values, 0.0), finite)


def _needs(references: str, component: str) -> set[Need]:
  del component
  return {base.parse_need(references)}


@transform(takes="none", gives="sample", needs=_needs)
def preference(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """`preference_scores` of the task's score, or of a component."""
  return _shape(preference_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def late_preference(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """`late_preference_scores` of the task's score, or of a component."""
  return _shape(late_preference_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def centered(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """`centered_scores` of the task's score, or of a component."""
  return _shape(centered_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def tanh(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """`tanh_scores` of the task's score, or of a component."""
  return _shape(tanh_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def arctan(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """`arctan_scores` of the task's score, or of a component."""
  return _shape(arctan_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def polynomial(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """`polynomial_scores` of the task's score, or of a component."""
  return _shape(polynomial_scores, rollout, references, component)
