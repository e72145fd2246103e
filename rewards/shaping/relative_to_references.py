"""Shapes of a score relative to the scores of reference responses.

The score of a reward model has no natural zero: it is meaningful only in
comparison with the score of an ordinary response, and unreliable far outside of
the range of the model's training data. The PAR paper concludes that a shaped
reward should be bounded, rise steeply at first and flatten later, and be a
function of r - r_m, the score r of a sample minus that of a reference response.

Every function takes the mean over the M reference responses to the prompt. One
response is enough; the paper uses up to ten. All functions but
`polynomial_scores` increase with r, up to rounding.

Source: Fu et al. 2025, Reward Shaping to Mitigate Reward Hacking in RLHF (PAR),
and its released code.
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
  """Returns mean_m shape(r - r_m), the form of all functions of this file.

  Args:
    shape: elementwise function.
    scores: `[...]` r, scores of the samples.
    references: `[..., M]` r_m, scores of M reference responses; the leading
      axes broadcast against `scores`.
    reference_mask: `[..., M]` bool, True if the response exists; None: all do.

  Returns:
    `[...]` float32; 0 if no reference exists.
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
  """Returns mean_m sigmoid(slope * (r - r_m)), the reward PAR.

  It is the mean probability, by the Bradley-Terry model, that the sample is
  preferred to a reference response. It does not change if the same number is
  added to r and to all r_m.

  Args:
    scores: `[...]` r, scores of the samples.
    references: `[..., M]` r_m, scores of M reference responses.
    reference_mask: `[..., M]` bool, True if the response exists; None: all do.
    slope: factor of the difference; k in the paper.

  Returns:
    `[...]` float32 in (0, 1), or 0 if no reference exists.
  """

  def shape(gap: Array) -> Array:
    return jax.nn.sigmoid(slope * gap)

  return against(shape, scores, references, reference_mask)


def late_preference_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """Returns mean_m sigmoid(r - 3 - r_m), which is steepest at r = r_m + 3.

  It is the paper's example of a shape that does not rise steeply at first. The
  arguments and the result are those of `preference_scores`, without `slope`.
  """
  return preference_scores(scores - 3.0, references, reference_mask)


def centered_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """Returns mean_m (r - r_m), unbounded; arguments: see `preference_scores`."""
  return against(lambda gap: gap, scores, references, reference_mask)


def tanh_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """Returns mean_m tanh(r - r_m); for arguments see `preference_scores`."""
  return against(jnp.tanh, scores, references, reference_mask)


def arctan_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """Returns mean_m arctan(r - r_m); for arguments see `preference_scores`."""
  return against(jnp.arctan, scores, references, reference_mask)


def polynomial_scores(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """Returns mean_m f(r - r_m), with a polynomial f that fits the sigmoid.

  f is the least-squares fit of degree 5 at 100 points of [-5, 5]; it is 0 below
  -5 and 1 above 5. The fit is -0.011 at -5 and 1.011 at 5, so f falls by 0.011
  at both ends and increases elsewhere. For arguments see `preference_scores`.
  """
  edge = 5.0
  grid = np.linspace(-edge, edge, 100)
  coefficients = np.polyfit(grid, 1.0 / (1.0 + np.exp(-grid)), 5).tolist()

  def shape(gap: Array) -> Array:
    inside = jnp.clip(gap, -edge, edge)
    value = jnp.zeros_like(inside)
    for coefficient in coefficients:  # Horner's rule
      value = value * inside + coefficient
    return jnp.where(gap <= -edge, 0.0, jnp.where(gap >= edge, 1.0, value))

  return against(shape, scores, references, reference_mask)


# Rewards of a rollout of P prompts and S samples. Their settings are
#   references: "task/NAME" or "sampler/NAME", array of the scores of reference
#     responses, [P] or [P, M]; entries that are not finite do not count
#   component: name of the component to shape; "" is the task's score


def _shape(
  function: Callable[[Array, Array, Array], Array],
  rollout: types.Rollout,
  references: str,
  component: str,
) -> Array:
  """Applies one of the `_scores` functions above to a rollout."""
  scores = base.score(rollout, component)  # [P, S]
  values = jnp.asarray(rollout.extras[base.parse_need(references)])
  values = values.reshape(scores.shape[0], 1, -1)  # [P, 1, M]
  return function(scores, values, jnp.isfinite(values))


def _needs(references: str, component: str) -> set[Need]:
  del component
  return {base.parse_need(references)}


@transform(takes="none", gives="sample", needs=_needs)
def preference(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """Returns `preference_scores` of the task's score, or of a component."""
  return _shape(preference_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def late_preference(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """Returns `late_preference_scores` of the task's score, or of a component."""
  return _shape(late_preference_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def centered(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """Returns `centered_scores` of the task's score, or of a component."""
  return _shape(centered_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def tanh(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """Returns `tanh_scores` of the task's score, or of a component."""
  return _shape(tanh_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def arctan(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """Returns `arctan_scores` of the task's score, or of a component."""
  return _shape(arctan_scores, rollout, references, component)


@transform(takes="none", gives="sample", needs=_needs)
def polynomial(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """Returns `polynomial_scores` of the task's score, or of a component."""
  return _shape(polynomial_scores, rollout, references, component)
