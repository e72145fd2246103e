"""Transforms to compose: sources, baselines, credit, placement, filters.

The array functions of `objectives`, `advantages`, `noise` and `credit` stand
here under the same names, lifted over rollouts; their docstrings hold the
equations.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import (
  advantages,
  credit,
  masked,
  noise,
  objectives,
  probes,
  segmentation,
  types,
)
from rl.transform import Transform, among, chain, lift, transform

Array = jax.Array


def _samples(rollout: types.Rollout) -> Array:
  return rollout.sample_mask


# Sources: where a signal comes from.


@transform("none", "sample")
def scores(_, rollout: types.Rollout) -> Array:
  """The graded outcome reward, `[P, S]`."""
  return rollout.scores


@transform("none", "sample")
def verdicts(_, rollout: types.Rollout) -> Array:
  """1 correct, 0 wrong or unknown, `[P, S]`; see `known_verdict`."""
  return (rollout.correct == 1).astype(jnp.float32)


@transform("none", "step")
def step_scores(_, rollout: types.Rollout) -> Array:
  """The process reward of each step, `[P, S, K]`.

  Raises:
    ValueError: the rollout has none.
  """
  if rollout.step_scores is None:
    raise ValueError(
      "step_scores(): the rollout has no step scores; choose a task with "
      "checkable steps (chain) or give it a process reward model"
    )
  return rollout.step_scores


@transform("none", "vector")
def components(_, rollout: types.Rollout, *, names: tuple[str, ...]) -> Array:
  """Named reward components, `[M, P, S]`.

  Raises:
    KeyError: a name the rollout lacks.
  """
  missing = [name for name in names if name not in rollout.components]
  if missing:
    raise KeyError(
      f"components: {missing} are not in the rollout; available: "
      f"{sorted(rollout.components)}"
    )
  return jnp.stack([rollout.components[name] for name in names])


def probe(need: probes.Need, level: types.Level = "token") -> Transform:
  """What a scoring pass found, as a signal."""
  return Transform(
    f"probe({need})",
    "none",
    level,
    tuple,
    lambda _, rollout, state: (rollout.extras[need], state),
    frozenset({need}),
  )


@transform("none", "sample")
def signed_verdicts(_, rollout: types.Rollout, *, right: float = 1.0) -> Array:
  """+right where correct, -1 where not, 0 where unknown; no baseline."""
  return right * (rollout.correct == 1) - 1.0 * (rollout.correct == 0)


# Subsets, for `among` and `only`.


def known_verdict(rollout: types.Rollout) -> Array:
  """`[P, S]` samples whose verdict is known."""
  return rollout.correct >= 0


def right_verdict(rollout: types.Rollout) -> Array:
  """`[P, S]` samples known to be right."""
  return rollout.correct == 1


def wrong_verdict(rollout: types.Rollout) -> Array:
  """`[P, S]` samples known to be wrong."""
  return rollout.correct == 0


_HASH_BITS = 24


def _hash(ids: Array) -> Array:
  """A fixed integer hash, uniform over `[0, 2^24)`: MurmurHash3's finalizer."""
  x = ids.astype(jnp.uint32) + jnp.uint32(0x9E3779B9)  # 0 would stay 0
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  return (x ^ (x >> 16)) >> (32 - _HASH_BITS)


def labelled(fraction: float) -> Callable[[types.Rollout], Array]:
  """`rollout -> [P, S]`, the samples of about that fraction of the prompts.

  A prompt is chosen by a hash of its id: always or never, in whatever batch and
  place it comes, and every prompt of a smaller fraction is in a larger one.

  Args:
    fraction: 0 chooses none, 1 all.

  Raises:
    ValueError: it is not in [0, 1].
  """
  if not 0 <= fraction <= 1:
    raise ValueError(
      f"labelled({fraction:g}): a fraction of the prompts is from 0 to 1; "
      f"nearest: {min(max(fraction, 0.0), 1.0):g}"
    )
  bound = round(fraction * 2**_HASH_BITS)

  def chosen(rollout: types.Rollout) -> Array:
    prompts = _hash(rollout.prompt_ids) < bound
    return jnp.broadcast_to(prompts[:, None], rollout.sample_mask.shape)

  chosen.__name__ = f"labelled({fraction:g})"
  return chosen


# Baselines and set objectives over a group.

center = lift(advantages.center, valid=_samples)
leave_one_out = lift(advantages.leave_one_out, valid=_samples)
group_normalize = lift(advantages.group_normalize, valid=_samples)
max_at_k_weights = lift(objectives.max_at_k_weights, valid=_samples)


def usable_verdicts(fraction: float, *stages: Transform) -> Transform:
  """`chain(verdicts(), *stages)` among the verdicts that may be used.

  These are the known ones, of the prompts in `labelled(fraction)`; the others
  are in no statistic and give 0. The rollout keeps every verdict, for metrics.
  """
  known = among(known_verdict, chain(verdicts(), *stages))
  return among(labelled(fraction), known)


# Rewards of a verifier that errs.

backward_correction = lift(noise.backward_correction)
forward_weights = lift(noise.forward_weights)


@transform("sample")
def pass_at_k_advantages(
  signal: Array, rollout: types.Rollout, *, k: int, form: str = "analytic"
) -> Array:
  """`objectives.pass_at_k_advantages`; subsets are drawn by prompt key."""
  if form != "bootstrap":
    return objectives.pass_at_k_advantages(signal, k, rollout.sample_mask, form)

  def one(scores, valid, key):
    return objectives.pass_at_k_advantages(scores, k, valid, form, key)

  return jax.vmap(one)(signal, rollout.sample_mask, rollout.keys)


@transform(
  "sample",
  init=lambda decay: {"mean": jnp.zeros(()), "weight": jnp.zeros(())},
)
def minus_running_mean(
  signal: Array, rollout: types.Rollout, state, *, decay: float = 0.95
) -> tuple[Array, dict[str, Array]]:
  """R - b, b the bias-corrected moving average of *earlier* batches' means.

  b is 0 before the first batch, so the baseline never contains the sample it
  is subtracted from.
  """
  seen = state["weight"] > 0
  baseline = state["mean"] / jnp.where(seen, state["weight"], 1.0)
  mean = masked.mean(signal, rollout.sample_mask, axis=(0, 1))
  decay = jnp.where(rollout.sample_mask.any(), decay, 1.0)  # nothing to learn
  new = {
    "mean": decay * state["mean"] + (1 - decay) * mean,
    "weight": decay * state["weight"] + (1 - decay),
  }
  return jnp.where(rollout.sample_mask, signal - baseline, 0.0), new


@transform("token")
def minus_others_mean_return(
  signal: Array, rollout: types.Rollout, *, horizon: int | None = None
) -> Array:
  """G_it - sum_{j != i} sum_t G_jt / ((n - 1) L): the baseline of PURE.

  Args:
    signal: `[P, S, T]` returns-to-go.
    horizon: L, the longest completion in tokens, a constant and not the
      sample's length; None takes the T of the batch.

  A group of one has no baseline: advantage 0.
  """
  valid = rollout.valid("token")
  rows = valid.any(-1)  # a sample without a scored token is no member
  totals = masked.sum(signal, valid)
  n = masked.count(rows, keepdims=True)
  others = masked.sum(totals, rows, keepdims=True) - totals
  length = horizon or signal.shape[-1]
  baseline = others / (jnp.maximum(n - 1, 1.0) * length)
  alone = (n <= 1)[..., None]
  return jnp.where(valid & ~alone, signal - baseline[..., None], 0.0)


@transform(("sample", "step", "token"))
def whiten(
  signal: Array, valid: Array, *, ddof: int = 0, eps: float = 1e-8
) -> Array:
  """Mean 0 and variance 1 over all valid entries of the batch."""
  return masked.whiten(signal, valid, tuple(range(signal.ndim)), ddof, eps)


# Credit.

min_form_rewards = lift(
  credit.min_form_rewards, "step", step_mask=lambda r: r.valid("step")
)


@transform(("step", "token"))
def returns_to_go(
  signal: Array, valid: Array, *, gamma: float = 1.0, reduce: str = "sum"
) -> Array:
  """`credit.returns_to_go` over steps or tokens."""
  return credit.returns_to_go(signal, valid, gamma, reduce)


_OLD_VALUES = probes.Need("old", probes.values)
gae = lift(
  credit.gae,
  "token",
  needs={_OLD_VALUES},
  values=lambda r: r.extras[_OLD_VALUES],
  mask=lambda r: r.valid("token"),
  segments=lambda r: r.segments,
)


# From one level to another.


@transform("sample", "token")
def broadcast(signal: Array, rollout: types.Rollout) -> Array:
  """A finished advantage, the same at every token of its sample."""
  return jnp.where(rollout.mask, signal[..., None], 0.0)


@transform("sample", "token")
def place_last(signal: Array, rollout: types.Rollout) -> Array:
  """A reward, on the last scored token of its sample."""
  positions = jnp.arange(rollout.mask.shape[-1])
  last = jnp.max(jnp.where(rollout.mask, positions, -1), -1, keepdims=True)
  return jnp.where(positions == last, signal[..., None], 0.0)


def step_ends(rollout: types.Rollout) -> Array:
  """`[P, S, T]` bool, the last scored token of each step."""
  return segmentation.step_ends(rollout.step_ids, rollout.mask)


def _at_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """The value of each token's step; 0 outside steps."""
  at = jnp.clip(rollout.step_ids, 0, signal.shape[-1] - 1)
  values = jnp.take_along_axis(signal, at, -1)
  return jnp.where(rollout.step_ids >= 0, values, 0.0)


@transform("step", "token")
def place_at_step_ends(signal: Array, rollout: types.Rollout) -> Array:
  """Rewards, each on the last token of its step."""
  return jnp.where(step_ends(rollout), _at_tokens(signal, rollout), 0.0)


@transform("step", "token")
def broadcast_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Finished advantages, each at every token of its step."""
  return jnp.where(rollout.mask, _at_tokens(signal, rollout), 0.0)


@transform("step", "sample")
def sum_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Sum over the steps of a sample; 0 of none."""
  return masked.sum(signal, rollout.valid("step"))


@transform("step", "sample")
def min_steps(signal: Array, rollout: types.Rollout) -> Array:
  """The worst step of a sample; 0 of none."""
  valid = rollout.valid("step")
  return jnp.where(valid.any(-1), masked.min(signal, valid), 0.0)


@transform("step", "sample")
def last_step(signal: Array, rollout: types.Rollout) -> Array:
  """The last step of a sample; 0 of none."""
  valid = rollout.valid("step")
  index = jnp.max(jnp.where(valid, jnp.arange(valid.shape[-1]), -1), -1)
  last = jnp.take_along_axis(signal, jnp.maximum(index, 0)[..., None], -1)
  return jnp.where(index >= 0, last[..., 0], 0.0)


@transform("token", "sample")
def sum_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """Sum over the scored tokens of a sample."""
  return masked.sum(signal, rollout.valid("token"))


@transform("token", "sample")
def mean_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """Mean over the scored tokens of a sample; 0 of none."""
  return masked.mean(signal, rollout.valid("token"))


@transform("vector", "sample")
def weighted_sum(
  signal: Array, rollout: types.Rollout, *, weights: tuple[float, ...]
) -> Array:
  """sum_m weight_m component_m."""
  del rollout
  return jnp.tensordot(jnp.asarray(weights, jnp.float32), signal, 1)


# Filters: who is trained on. They read the verdict, not the shaped score.


@transform("none", "sample")
def only(
  _, rollout: types.Rollout, *, where: Callable[[types.Rollout], Array]
) -> Array:
  """The samples of a subset, `rollout -> [P, S]`."""
  return where(rollout)


@transform("none", "sample")
def mixed_verdicts(_, rollout: types.Rollout) -> Array:
  """Groups with a right and a wrong sample (dynamic sampling of DAPO)."""
  real = rollout.sample_mask
  right = ((rollout.correct == 1) & real).any(-1, keepdims=True)
  wrong = ((rollout.correct == 0) & real).any(-1, keepdims=True)
  return jnp.broadcast_to(right & wrong, real.shape)


@transform("none", "sample")
def finished(_, rollout: types.Rollout) -> Array:
  """Samples that ended by themselves (overlong filtering of DAPO)."""
  return rollout.finished
