"""The transforms that methods chain: sources, baselines and credit.

`level_changes` has those that turn a signal of one level into one of another.

A transform with the same name as a function in `rl.best_of_k`, `rl.advantages`
or `rl.credit` applies that array function to a rollout. Its equation is in the
docstring of the array function.

Axes: P prompts, S samples per prompt (a *group*), T tokens, K reasoning steps,
M reward components. A mask `valid` is True for entries that exist.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, advantages, best_of_k, credit, masked, scoring, types
from rl.sampling import random_keys
from rl.transforms.base import Transform, lift, transform

Array = jax.Array


def _sample_mask(rollout: types.Rollout) -> Array:
  return rollout.sample_mask


# Sources: transforms without an input signal, the first links of chains.


@transform(takes="none", gives="sample")
def scores(_, rollout: types.Rollout) -> Array:
  """Returns the score of each sample, `Rollout.scores` `[P, S]`."""
  return rollout.scores


@transform(takes="none", gives="sample")
def verdicts(_, rollout: types.Rollout) -> Array:
  """Returns 1 for samples that are right, and 0 for all others, `[P, S]`.

  Wrong samples and samples with an unknown verdict are both 0; the subset
  `rl.transforms.filters.known_verdict` distinguishes them.
  """
  return (rollout.correct == 1).astype(jnp.float32)


@transform(takes="none", gives="step")
def step_scores(_, rollout: types.Rollout) -> Array:
  """Returns the process reward of each reasoning step, `[P, S, K]`.

  Raises:
    UsageError: if the rollout has no step scores.
  """
  if rollout.step_scores is None:
    raise UsageError(
      "step_scores(): the rollout has no step scores; choose a task that "
      "scores steps, such as chain, or add a process reward model"
    )
  return rollout.step_scores


@transform(takes="none", gives="vector")
def components(_, rollout: types.Rollout, *, names: tuple[str, ...]) -> Array:
  """Stacks the components of the score with these names, `[M, P, S]`.

  Raises:
    UsageError: if the rollout lacks a component.
  """
  missing = [name for name in names if name not in rollout.components]
  if missing:
    raise UsageError(
      f"components(): the rollout has no components {missing}; available: "
      f"{sorted(rollout.components)}"
    )
  return jnp.stack([rollout.components[name] for name in names])


def probe(need: scoring.Need, level: types.Level = "token") -> Transform:
  """Builds a source whose signal is the value of a need.

  Args:
    need: an array that is put into `rollout.extras` before the transform is
      applied, such as the log-probs of a parameter set (`rl.scoring.Need`).
    level: level of that array.
  """
  return Transform(
    name=f"probe({need})",
    takes="none",
    gives=level,
    init=tuple,  # no state
    apply=lambda _, rollout, state: (rollout.extras[need], state),
    needs=frozenset({need}),
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
  """Computes log pi_model - log pi_reference of each scored token, in nats.

  If the tokens were sampled from `model`, the expectation at a token is
  KL(model || reference) of the next-token distribution.

  Args:
    model, reference: parameters of the two policies: "old", those at the start
      of the training step, or the name of a parameter set, such as "ref".

  Returns:
    `[P, S, T]`; 0 at tokens that are not scored.
  """
  model_log_probs, reference_log_probs = (
    rollout.extras[_log_probs(source)] for source in (model, reference)
  )
  difference = model_log_probs - reference_log_probs  # [P, S, T]
  return jnp.where(rollout.valid("token"), difference, 0.0)


# Baselines and objectives of subsets, over the samples of a group.

center = lift(advantages.center, valid=_sample_mask)
leave_one_out = lift(advantages.leave_one_out, valid=_sample_mask)
group_normalize = lift(advantages.group_normalize, valid=_sample_mask)
max_at_k_weights = lift(best_of_k.max_at_k_weights, valid=_sample_mask)


@transform(takes="sample")
def pass_at_k_advantages(
  signal: Array, rollout: types.Rollout, *, k: int, form: str = "analytic"
) -> Array:
  """Applies `rl.best_of_k.pass_at_k_advantages` to each group.

  The random subsets of the form "bootstrap" depend on the PRNG key of the
  prompt.
  """
  if form != "bootstrap":
    return best_of_k.pass_at_k_advantages(signal, k, rollout.sample_mask, form)

  def advantages_of_group(scores, valid, key):
    return best_of_k.pass_at_k_advantages(scores, k, valid, form, key)

  keys = random_keys.keys(rollout.keys, "pass_at_k_advantages")
  return jax.vmap(advantages_of_group)(signal, rollout.sample_mask, keys)


def moving_average_value(state: dict[str, Array]) -> Array:
  """Returns the value of a moving average, without the bias of its start at 0.

  Args:
    state: `{"mean", "weight"}`, see `update_moving_average`.

  Returns:
    mean / weight; 0 if no value has been added yet.
  """
  weight = state["weight"]
  return state["mean"] / jnp.where(weight > 0, weight, 1.0)


def update_moving_average(
  state: dict[str, Array], value: Array, decay: float, exists: Array
) -> dict[str, Array]:
  """Adds a value to an exponential moving average.

    mean   <- decay * mean + (1 - decay) * value
    weight <- decay * weight + (1 - decay)

  Args:
    state: `{"mean": array, "weight": []}`. In the initial state, the mean is
      zeros of the value's shape, and the weight is 0.
    value: the value to add.
    decay: factor of the earlier values.
    exists: `[]` bool; if it is False, the state is returned as it is.
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
  """Computes R - b, with b a moving average over *earlier* batches.

  R is the signal of a sample. b is the moving average of the mean signal of a
  batch, corrected for its start at 0 (`moving_average_value`); it is 0 before
  the first batch. Because b leaves out the present batch, it is independent of
  the samples that it is subtracted from.
  """
  valid = rollout.sample_mask
  centered = jnp.where(valid, signal - moving_average_value(state), 0.0)
  batch_mean = masked.mean(signal, valid, axis=(0, 1))
  state = update_moving_average(state, batch_mean, decay, valid.any())
  return centered, state


@transform(takes=("sample", "step", "token"))
def whiten(
  signal: Array, valid: Array, *, ddof: int = 0, eps: float = 1e-8
) -> Array:
  """Whitens over all entries of the batch that exist (`rl.masked.whiten`).

  The result has mean 0 and variance 1 up to eps; it is 0 if all entries are
  equal. The variance of n entries is divided by n - ddof.
  """
  return masked.whiten(signal, valid, tuple(range(signal.ndim)), ddof, eps)


# Credit.

min_form_rewards = lift(
  credit.min_form_rewards, "step", step_mask=lambda r: r.valid("step")
)


@transform(takes=("step", "token"))
def returns_to_go(
  signal: Array, valid: Array, *, gamma: float = 1.0, reduce: str = "sum"
) -> Array:
  """Applies `rl.credit.returns_to_go` to the steps or tokens of each sample."""
  return credit.returns_to_go(signal, valid, gamma, reduce)


# [P, S, T], from the value head with the parameters at the start of the step.
_OLD_VALUES = scoring.Need("old", scoring.values)


@transform(takes="token", needs={_OLD_VALUES})
def gae(
  signal: Array,
  rollout: types.Rollout,
  *,
  gamma: float = 1.0,
  lam: float = 1.0,
  cut: bool = False,
) -> Array:
  """Applies `rl.credit.gae` to rewards of tokens.

  With `cut`, no credit passes from a turn to the one before it.
  """
  return credit.gae(
    signal,
    rollout.extras[_OLD_VALUES],
    rollout.valid("token"),
    gamma,
    lam,
    segments=rollout.turns if cut else None,
  )
