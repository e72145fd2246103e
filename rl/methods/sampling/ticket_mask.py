"""GRPO that trains a small random part of the parameters."""

import jax
import jax.numpy as jnp
import optax

from rl import UsageError, types
from rl.method import Method
from rl.methods.group.grpo import grpo

Array = jax.Array


def random_mask(tree: types.PyTree, keep: float, seed: int) -> types.PyTree:
  """Returns a bool for every entry of every leaf, True with probability `keep`.

  It is a function of the seed, the index of the leaf in the tree and its shape,
  so that masks need not be stored. The masks of two seeds have the expected
  Jaccard index (entries in both / entries in either) keep / (2 - keep).
  """
  leaves, structure = jax.tree.flatten(tree)
  keys = jax.random.split(jax.random.key(seed), len(leaves))
  masks = [
    jax.random.uniform(key, leaf.shape) < keep
    for key, leaf in zip(keys, leaves, strict=True)
  ]
  return jax.tree.unflatten(structure, masks)


def masked_updates(keep: float, seed: int) -> optax.GradientTransformation:
  """Returns a transformation that sets updates outside of the mask to 0.

  With keep = 1 it changes nothing.
  """

  def zero(updates):
    mask = random_mask(updates, keep, seed)
    return jax.tree.map(
      lambda is_trained, x: jnp.where(is_trained, x, jnp.zeros_like(x)),
      mask,
      updates,
    )

  return optax.stateless(lambda updates, params: zero(updates))


def ticket_mask(
  keep: float = 0.01, seed: int = 0, clip: float = 0.2, beta: float = 0.0
) -> Method:
  """GRPO that trains the share `keep` of the parameters, a random one.

  A uniform random mask of every parameter array, fixed by the seed, multiplies
  the gradient before the optimizer (and before its clip of the global norm) and
  the update after it (weight decay included). All other parameters keep their
  exact values, and their Adam moments are 0. A very small share may need a
  larger learning rate.
  Source: The Multiple Ticket Hypothesis, 2025.

  Args:
    keep: share of the parameters that is trained.
    seed: seed of the mask.
    clip, beta: same as in `grpo`.

  Raises:
    UsageError: if `keep` is not in (0, 1].
  """
  if not 0 < keep <= 1:
    raise UsageError(
      f"keep = {keep:g} must be a share of the parameters, above 0 and at most "
      "1, such as 0.01"
    )

  def with_mask(
    tx: optax.GradientTransformation,
  ) -> optax.GradientTransformation:
    masking = masked_updates(keep, seed)
    return optax.chain(masking, tx, masking)

  base = grpo(clip=clip, beta=beta)
  return Method(
    advantage=base.advantage,
    loss=base.loss,
    parameter_sets=base.parameter_sets,
    optimizer=with_mask,
  )
