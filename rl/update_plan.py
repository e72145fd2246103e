"""The plan of updates: cuts rollouts into minibatches and microbatches.

One optimizer update is computed from a minibatch. A minibatch may be cut into
microbatches, whose gradients are computed one after another to save memory.
Both are slices along P, the axis of prompts, so that the samples of a prompt
stay together.

Slices are strided: slice i of n consists of the prompts i, i + n, i + 2n, ...
If P is sharded over devices, every device then has a part of every slice, and
no sample has to move to another device. With contiguous slices, almost every
sample would have to move.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import UsageError, types


@dataclasses.dataclass(frozen=True)
class Plan:
  """Plan of the updates that are made with a rollout; all fields are static.

  Attributes:
    epochs: number of times that the rollout is used.
    minibatches: number of optimizer updates per epoch.
    microbatches: number of slices of a minibatch whose gradients are summed.
      More slices need less memory; the sum differs by rounding alone.
    temperature: sampling temperature of the rollout. The policy that is
      optimised is the distribution at this temperature. If the sampler
      truncates it, the rollout has the support (`rl.types.Tokens.support`).
    chunk: number of positions of a prompt's samples whose logits are computed
      at a time; None lets `rl.scoring.read` choose.
    max_mean_ratio: an update is skipped if the mean importance ratio of its
      minibatch, the metric `policy/ratio_mean`, exceeds this value. The limit
      has no effect on losses that log no ratio. The default is that of PURE.
  """

  epochs: int = 1
  minibatches: int = 1
  microbatches: int = 1
  temperature: float = 1.0
  chunk: int | None = None
  max_mean_ratio: float = 10.0

  @property
  def updates(self) -> int:
    """Number of optimizer updates per rollout."""
    return self.epochs * self.minibatches

  @property
  def single(self) -> Plan:
    """The plan with one update per rollout, and slices of the same size."""
    slices = self.minibatches * self.microbatches
    return dataclasses.replace(
      self, epochs=1, minibatches=1, microbatches=slices
    )

  def check(self, prompts: int) -> None:
    """Checks that a rollout of `prompts` prompts can be cut this way.

    Raises:
      UsageError: if a number is below 1, or `prompts` is not divisible.
    """
    for name in ("epochs", "minibatches", "microbatches"):
      if getattr(self, name) < 1:
        raise UsageError(f"{name} = {getattr(self, name)} must be at least 1")
    slices = self.minibatches * self.microbatches
    if prompts % slices:
      nearest = max(slices, round(prompts / slices) * slices)
      raise UsageError(
        f"{prompts} prompts cannot be cut into {self.minibatches} minibatches "
        f"of {self.microbatches} microbatches: {prompts} is not a multiple of "
        f"{slices}; the nearest multiple is {nearest} (rollout.prompts), and "
        "plan.minibatches = plan.microbatches = 1 cut none"
      )


def split(tree: types.PyTree, parts: int) -> types.PyTree:
  """Cuts leaves `[P, ...]` into strided slices `[parts, P / parts, ...]`.

  Scalars are repeated for every slice.
  """

  def cut(x):
    if jnp.ndim(x) == 0:
      return jnp.broadcast_to(x, (parts,))
    strided = x.reshape(x.shape[0] // parts, parts, *x.shape[1:])
    return jnp.swapaxes(strided, 0, 1)

  return jax.tree.map(cut, tree)


def join(tree: types.PyTree) -> types.PyTree:
  """Inverts `split`, for leaves `[parts, P / parts, ...]`."""

  def glue(x):
    strided = jnp.swapaxes(x, 0, 1)
    return strided.reshape(-1, *strided.shape[2:])

  return jax.tree.map(glue, tree)


def map_parts(
  fn: Callable[[types.PyTree], types.PyTree], tree: types.PyTree, parts: int
) -> types.PyTree:
  """Applies `fn` to one slice of a tree after another, and joins the results.

  Args:
    fn: function of a tree, which treats each prompt separately.
    tree: tree of leaves `[P, ...]`.
    parts: number of slices along P.
  """
  if parts == 1:
    return fn(tree)
  return join(jax.lax.map(fn, split(tree, parts)))
