"""The transforms that chains are made of: sources, baselines, credit, levels.

Transforms with the name of a function in `rl.objectives`, `rl.advantages` or
`rl.credit` are that array function, applied to a rollout with `lift`. The
equations are in the docstrings there.
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


# Sources: the first link of a chain.


@transform(takes="none", gives="sample")
def scores(_, rollout: types.Rollout) -> Array:
  """The score of each sample, `[P, S]`, as in `Rollout.scores`."""
  return rollout.scores


@transform(takes="none", gives="sample")
def verdicts(_, rollout: types.Rollout) -> Array:
  """1 if a sample is right, 0 if it is wrong or unknown, `[P, S]`.

  `filters.known_verdict` tells wrong and unknown apart.
  """
  return (rollout.correct == 1).astype(jnp.float32)


@transform(takes="none", gives="step")
def step_scores(_, rollout: types.Rollout) -> Array:
  """The process reward of each step, `[P, S, K]`.

  Raises:
    ValueError: if the rollout has no step scores.
  """
  if rollout.step_scores is None:
    raise ValueError(
      "step_scores(): the rollout has no step scores; choose a task that scores "
      "steps (chain), or add a process reward model"
    )
  return rollout.step_scores


@transform(takes="none", gives="vector")
def components(_, rollout: types.Rollout, *, names: tuple[str, ...]) -> Array:
  """Named components of the reward, stacked to `[M, P, S]`.

  Raises:
    KeyError: if the rollout lacks a component.
  """
  missing = [name for name in names if name not in rollout.components]
  if missing:
    raise KeyError(
      f"components(): the rollout has no components {missing}; available: "
      f"{sorted(rollout.components)}"
    )
  return jnp.stack([rollout.components[name] for name in names])


def probe(need: scoring.Need, level: types.Level = "token") -> Transform:
  """The result of a scoring pass, as a signal at `level`."""
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
  takes="none",
  gives="token",
  needs=lambda model, reference: {_log_probs(model), _log_probs(reference)},
)
def log_ratios(
  _, rollout: types.Rollout, *, model: str, reference: str
) -> Array:
  """log pi_model - log pi_reference of each scored token, in nats.

  If the tokens were sampled from `model`, the expectation at a token is
  KL(model || reference) of the next-token distribution.

  Args:
    model, reference: "old", which is the policy at the start of the step, or
      the name of a parameter set.
  """
  model_log_probs, reference_log_probs = (
    rollout.extras[_log_probs(source)] for source in (model, reference)
  )
  difference = model_log_probs - reference_log_probs  # [P, S, T]
  return jnp.where(rollout.valid("token"), difference, 0.0)


# Baselines and set objectives, over the samples of a group.

center = lift(advantages.center, valid=_samples)
leave_one_out = lift(advantages.leave_one_out, valid=_samples)
group_normalize = lift(advantages.group_normalize, valid=_samples)
max_at_k_weights = lift(objectives.max_at_k_weights, valid=_samples)


@transform(takes="sample")
def pass_at_k_advantages(
  signal: Array, rollout: types.Rollout, *, k: int, form: str = "analytic"
) -> Array:
  """`objectives.pass_at_k_advantages`.

  The random subsets of "bootstrap" depend on the key of the prompt.
  """
  if form != "bootstrap":
    return objectives.pass_at_k_advantages(signal, k, rollout.sample_mask, form)

  def one(scores, valid, key):
    return objectives.pass_at_k_advantages(scores, k, valid, form, key)

  keys = random_keys.keys(rollout.keys, "pass_at_k_advantages")
  return jax.vmap(one)(signal, rollout.sample_mask, keys)


def moving_average_value(state: dict[str, Array]) -> Array:
  """The value of a moving average, without the bias of its start at 0.

  Args:
    state: result of `update_moving_average`.

  Returns:
    mean / weight; 0 before the first value.
  """
  weight = state["weight"]
  return state["mean"] / jnp.where(weight > 0, weight, 1.0)


def update_moving_average(
  state: dict[str, Array], value: Array, decay: float, exists: Array
) -> dict[str, Array]:
  """Adds a value to an exponential moving average.

    mean <- decay mean + (1 - decay) value,  weight <- decay weight + 1 - decay

  Args:
    state: `{"mean", "weight"}`; at first zeros of the value's shape, and 0.
    value: the new value.
    decay: factor of the earlier values.
    exists: `[]` bool; if False, the state is returned as it is.
  """
  decay = jnp.where(exists, decay, 1.0)
  new = {"mean": value, "weight": 1.0}
  return jax.tree.map(lambda old, x: decay * old + (1 - decay) * x, state, new)


@transform(
  takes="sample",
  init=lambda decay: {"mean": jnp.zeros(()), "weight": jnp.zeros(())},
)
def minus_running_mean(
  signal: Array, rollout: types.Rollout, state, *, decay: float = 0.95
) -> tuple[Array, dict[str, Array]]:
  """R - b, with b the moving average of the mean signal of *earlier* batches.

  b is corrected for its start at 0 and is 0 before the first batch. Because it
  leaves out the present batch, it is independent of the samples that it is
  subtracted from.
  """
  valid = rollout.sample_mask
  centred = jnp.where(valid, signal - moving_average_value(state), 0.0)
  mean = masked.mean(signal, valid, axis=(0, 1))
  return centred, update_moving_average(state, mean, decay, valid.any())


@transform(takes=("sample", "step", "token"))
def whiten(
  signal: Array, valid: Array, *, ddof: int = 0, eps: float = 1e-8
) -> Array:
  """Scales to mean 0 and variance 1 over all valid entries of the batch."""
  return masked.whiten(signal, valid, tuple(range(signal.ndim)), ddof, eps)


# Credit.

min_form_rewards = lift(
  credit.min_form_rewards, "step", step_mask=lambda r: r.valid("step")
)


@transform(takes=("step", "token"))
def returns_to_go(
  signal: Array, valid: Array, *, gamma: float = 1.0, reduce: str = "sum"
) -> Array:
  """`credit.returns_to_go` over the steps or tokens of a sample."""
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


@transform(takes="sample", gives="token")
def broadcast(signal: Array, rollout: types.Rollout) -> Array:
  """Copies the advantage of a sample to every scored token."""
  return jnp.where(rollout.mask, signal[..., None], 0.0)


def sample_ends(rollout: types.Rollout) -> Array:
  """`[P, S, T]` bool, the last scored token of each sample."""
  positions = jnp.arange(rollout.mask.shape[-1])  # [T]
  last = jnp.max(jnp.where(rollout.mask, positions, -1), -1, keepdims=True)
  return positions == last


@transform(takes="sample", gives="token")
def place_last(signal: Array, rollout: types.Rollout) -> Array:
  """Puts the reward of a sample on its last scored token."""
  return jnp.where(sample_ends(rollout), signal[..., None], 0.0)


def step_ends(rollout: types.Rollout) -> Array:
  """`[P, S, T]` bool, the last scored token of each step."""
  return masked.run_ends(rollout.step_ids, rollout.mask)


def _at_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """The value of each token's step, `[P, S, T]`; 0 outside of steps."""
  steps = jnp.clip(rollout.step_ids, 0, signal.shape[-1] - 1)
  values = jnp.take_along_axis(signal, steps, -1)  # [P, S, K] -> [P, S, T]
  return jnp.where(rollout.step_ids >= 0, values, 0.0)


@transform(takes="step", gives="token")
def place_at_step_ends(signal: Array, rollout: types.Rollout) -> Array:
  """Puts the reward of each step on its last scored token."""
  return jnp.where(step_ends(rollout), _at_tokens(signal, rollout), 0.0)


@transform(takes="step", gives="token")
def broadcast_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Copies the advantage of each step to all of its scored tokens."""
  return jnp.where(rollout.mask, _at_tokens(signal, rollout), 0.0)


@transform(takes="step", gives="sample")
def sum_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Sum over the steps of a sample; 0 if it has no steps.

  For the sum over the tokens of each step, see
  `rl.methods.process.oprl.sum_tokens_in_steps`.
  """
  return masked.sum(signal, rollout.valid("step"))


@transform(takes="step", gives="sample")
def min_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Smallest value among the steps of a sample; 0 if it has no steps."""
  valid = rollout.valid("step")
  return jnp.where(valid.any(-1), masked.min(signal, valid), 0.0)


@transform(takes="step", gives="sample")
def last_step(signal: Array, rollout: types.Rollout) -> Array:
  """Value of the last step of a sample; 0 if it has no steps."""
  valid = rollout.valid("step")
  # [P, S]; -1 if there is no step
  index = jnp.max(jnp.where(valid, jnp.arange(valid.shape[-1]), -1), -1)
  last = jnp.take_along_axis(signal, jnp.maximum(index, 0)[..., None], -1)
  return jnp.where(index >= 0, last[..., 0], 0.0)


@transform(takes="token", gives="sample")
def sum_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """Sum over the scored tokens of a sample."""
  return masked.sum(signal, rollout.valid("token"))


@transform(takes="token", gives="sample")
def mean_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """Mean over the scored tokens of a sample; 0 if it has none."""
  return masked.mean(signal, rollout.valid("token"))


@transform(takes="vector", gives="sample")
def weighted_sum(
  signal: Array, rollout: types.Rollout, *, weights: tuple[float, ...]
) -> Array:
  """Sum of the components times their weights: sum_m w_m R_m."""
  del rollout
  return jnp.tensordot(jnp.float32(weights), signal, 1, precision="highest")
