"""GRPO that trains a hundredth of the parameters, drawn at random."""

import jax
import jax.numpy as jnp
import optax

from rl import types
from rl.method import Method
from rl.methods.group.grpo import grpo

Array = jax.Array


def random_mask(tree: types.PyTree, keep: float, seed: int) -> types.PyTree:
  """A bool for every entry of every leaf, True with probability `keep`.

  A function of the seed, the place of the leaf in the tree and its shape, so
  nothing is stored. Two seeds' masks have the expected Jaccard index
  keep / (2 - keep).
  """
  leaves, structure = jax.tree.flatten(tree)
  keys = jax.random.split(jax.random.key(seed), len(leaves))
  drawn = [
    jax.random.uniform(key, leaf.shape) < keep
    for key, leaf in zip(keys, leaves, strict=True)
  ]
  return jax.tree.unflatten(structure, drawn)


def masked_updates(keep: float, seed: int) -> optax.GradientTransformation:
  """Zeroes what the mask leaves out; keep = 1 leaves all as it is."""

  def zero(updates):
    mask = random_mask(updates, keep, seed)
    return jax.tree.map(
      lambda m, u: jnp.where(m, u, jnp.zeros_like(u)), mask, updates
    )

  return optax.stateless(lambda updates, params: zero(updates))


def ticket_mask(
  keep: float = 0.01, seed: int = 0, clip: float = 0.2, beta: float = 0.0
) -> Method:
  """GRPO in a random hundredth of the parameters.

  A uniform mask per tensor, drawn once from the seed, multiplies the gradient
  before the optimiser (and its clip of the global norm) and the update after it
  (weight decay included): the rest keeps its bits and has Adam moments of 0.
  Very small ratios may want a larger learning rate.
  Source: The Multiple Ticket Hypothesis, 2025.

  Raises:
    ValueError: `keep` is not in (0, 1].
  """
  if not 0 < keep <= 1:
    raise ValueError(
      f"keep = {keep:g} must be a share of the parameters in (0, 1]; nearest: "
      f"{min(max(keep, 0.01), 1.0):g}"
    )

  def within(tx: optax.GradientTransformation) -> optax.GradientTransformation:
    masking = masked_updates(keep, seed)
    return optax.chain(masking, tx, masking)

  base = grpo(clip=clip, beta=beta)
  return Method(
    advantage=base.advantage,
    loss=base.loss,
    parameter_sets=base.parameter_sets,
    optimizer=within,
  )
