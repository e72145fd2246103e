"""Parameter sets: parameters that a method reads besides those of the policy.

Examples are a reference policy, a moving average of the policy, and an earlier
policy. Each starts as a copy of the policy's parameters and is updated by its
rule at the end of every training step. A parameter set with the rule
`learned()` is trained instead, by the learner that has the same name
(`rl.learners`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import UsageError, types, update_guard

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class ParameterSet:
  """The rule of a parameter set: how it starts, and how it is updated.

  Attributes:
    name: name of the rule with its hyper-parameters.
    update: `(old, params, step) -> new`, called at the end of training step
      number `step`, counted from 0. `old` is the value of the parameter set,
      and `params` are the parameters of the policy.
    init: function from the parameters of the policy to the initial value. A
      value is parameters, or a tuple of them, of which methods read the first.
    trained: whether the learner with the name of the parameter set trains it.
    lagged: whether `params` in `update` are the policy's parameters at the
      start of the training step, and not those at its end.
  """

  name: str
  update: Callable[[types.PyTree, types.PyTree, Array], types.PyTree]
  init: Callable[[types.PyTree], types.PyTree] = lambda params: jax.tree.map(
    jnp.copy, params
  )
  trained: bool = False
  lagged: bool = False

  def __str__(self) -> str:
    return self.name


def frozen() -> ParameterSet:
  """The parameters that the run started from."""
  return ParameterSet("frozen()", lambda old, params, step: old)


def learned() -> ParameterSet:
  """Parameters that start as a copy of the policy's, and are trained.

  The learner with the name of the parameter set trains them (`rl.learners`).
  """
  return ParameterSet("learned()", lambda old, params, step: old, trained=True)


def previous() -> ParameterSet:
  """The policy's parameters at the start of the previous training step."""
  return ParameterSet(
    "previous()", lambda old, params, step: params, lagged=True
  )


def read(value: types.PyTree) -> types.PyTree:
  """Returns the parameters that methods read: of a tuple, its first."""
  return value[0] if isinstance(value, tuple) else value


def lag(steps: int) -> ParameterSet:
  """The policy's parameters at the start of the training step N steps ago.

  During the first N training steps they are those that the run started from.
  The state and its checkpoints have N copies of the trained parameters, where
  `sync(every=N)` has one, which is 0 to N - 1 steps old.

  Args:
    steps: N, at least 1, where it is `previous()`.

  Raises:
    UsageError: `steps` is below 1.
  """
  if steps < 1:
    raise UsageError(
      f"lag(steps={steps}) must look at least 1 step back; the parameters at "
      'the start of the present step are the source "old"'
    )

  def init(params):  # the oldest first
    return tuple(jax.tree.map(jnp.copy, params) for _ in range(steps))

  def update(old, params, step):
    return (*old[1:], params)

  return ParameterSet(f"lag(steps={steps})", update, init, lagged=True)


def ema(decay: float, every: int = 1) -> ParameterSet:
  """A moving average: average <- decay * average + (1 - decay) * params.

  It is stored in float32 or wider, because bfloat16 would round small changes
  away.

  Args:
    decay: factor of the average in each update.
    every: number of training steps from one update to the next.
  """

  def to_float32(params):
    return jax.tree.map(
      lambda p: jnp.array(p, jnp.promote_types(p.dtype, jnp.float32)), params
    )

  def update(old, params, step):
    is_due = (step + 1) % every == 0
    return jax.tree.map(
      lambda o, p: jnp.where(is_due, decay * o + (1 - decay) * p, o),
      old,
      to_float32(params),
    )

  return ParameterSet(
    f"ema(decay={decay:g}, every={every})", update, to_float32
  )


def sync(every: int) -> ParameterSet:
  """A copy of the policy's parameters, renewed after `every` training steps."""

  def update(old, params, step):
    return update_guard.select((step + 1) % every == 0, params, old)

  return ParameterSet(f"sync(every={every})", update)
