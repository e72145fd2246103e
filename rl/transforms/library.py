"""Transforms to compose: sources, baselines, credit, placement.

The array functions of `objectives`, `advantages` and `credit` stand here under
the same names, lifted over rollouts; their docstrings hold the equations.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, credit, masked, objectives, scoring, types
from rl.sampling import random_keys
from rl.transforms.base import Transform, lift, transform

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
  """1 correct, 0 wrong or unknown, `[P, S]`; see `filters.known_verdict`."""
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


def probe(need: scoring.Need, level: types.Level = "token") -> Transform:
  """What a scoring pass found, as a signal."""
  return Transform(
    f"probe({need})",
    "none",
    level,
    tuple,
    lambda _, rollout, state: (rollout.extras[need], state),
    frozenset({need}),
  )


def _log_probs(source: str) -> scoring.Need:
  return scoring.Need(source, scoring.log_probs)


@transform(
  "none",
  "token",
  needs=lambda model, reference: {_log_probs(model), _log_probs(reference)},
)
def log_ratios(
  _, rollout: types.Rollout, *, model: str, reference: str
) -> Array:
  """log pi_model - log pi_reference of each scored token, in nats.

  Where `model` sampled, its mean is KL(model || reference) of a token.

  Args:
    model, reference: "old", the policy at the step's start, or slots.
  """
  ours, theirs = (rollout.extras[_log_probs(s)] for s in (model, reference))
  return jnp.where(rollout.valid("token"), ours - theirs, 0.0)


# Baselines and set objectives over a group.

center = lift(advantages.center, valid=_samples)
leave_one_out = lift(advantages.leave_one_out, valid=_samples)
group_normalize = lift(advantages.group_normalize, valid=_samples)
max_at_k_weights = lift(objectives.max_at_k_weights, valid=_samples)


@transform("sample")
def pass_at_k_advantages(
  signal: Array, rollout: types.Rollout, *, k: int, form: str = "analytic"
) -> Array:
  """`objectives.pass_at_k_advantages`; subsets are drawn by prompt key."""
  if form != "bootstrap":
    return objectives.pass_at_k_advantages(signal, k, rollout.sample_mask, form)

  def one(scores, valid, key):
    return objectives.pass_at_k_advantages(scores, k, valid, form, key)

  keys = random_keys.keys(rollout.keys, "pass_at_k_advantages")
  return jax.vmap(one)(signal, rollout.sample_mask, keys)


def moving_average(state: dict[str, Array]) -> Array:
  """What `moved` has seen, corrected for its start at 0; 0 of nothing."""
  weight = state["weight"]
  return state["mean"] / jnp.where(weight > 0, weight, 1.0)


def moved(
  state: dict[str, Array], value: Array, decay: float, some: Array
) -> dict[str, Array]:
  """`{"mean", "weight"}` after one more value; as it was if there is not one.

  Args:
    state: zeros of the value's shape, and 0, to start with.
    value: counts 1 - decay.
    some: `[]` bool, whether there is a value.
  """
  decay = jnp.where(some, decay, 1.0)
  seen = {"mean": value, "weight": 1.0}
  return jax.tree.map(lambda old, x: decay * old + (1 - decay) * x, state, seen)


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
  real = rollout.sample_mask
  centred = jnp.where(real, signal - moving_average(state), 0.0)
  mean = masked.mean(signal, real, axis=(0, 1))
  return centred, moved(state, mean, decay, real.any())


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


_OLD_VALUES = scoring.Need("old", scoring.values)
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


def sample_ends(rollout: types.Rollout) -> Array:
  """`[P, S, T]` bool, the last scored token of each sample."""
  positions = jnp.arange(rollout.mask.shape[-1])
  last = jnp.max(jnp.where(rollout.mask, positions, -1), -1, keepdims=True)
  return positions == last


@transform("sample", "token")
def place_last(signal: Array, rollout: types.Rollout) -> Array:
  """A reward, on the last scored token of its sample."""
  return jnp.where(sample_ends(rollout), signal[..., None], 0.0)


def step_ends(rollout: types.Rollout) -> Array:
  """`[P, S, T]` bool, the last scored token of each step."""
  return masked.run_ends(rollout.step_ids, rollout.mask)


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
  """Sum over the steps of a sample; 0 of none.

  `oprl.sum_tokens_in_steps` is the sum over the tokens of each step.
  """
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
  return jnp.tensordot(jnp.float32(weights), signal, 1, precision="highest")
