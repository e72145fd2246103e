"""Metrics of the slices of a minibatch, and how they merge.

A mean over tokens must be merged as (total, weight), a loss adds up, a maximum
is the largest: merging three kinds by one rule is how logged numbers go wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.struct
import jax
import jax.numpy as jnp

Array = jax.Array


@flax.struct.dataclass
class Tally:
  """Metrics of one slice; after a scan, of many on a leading axis.

  Attributes:
    sums: parts that add up.
    totals, weights: numerators and denominators of means.
    maxima: largest values.
  """

  sums: dict[str, Array] = flax.struct.field(default_factory=dict)
  totals: dict[str, Array] = flax.struct.field(default_factory=dict)
  weights: dict[str, Array] = flax.struct.field(default_factory=dict)
  maxima: dict[str, Array] = flax.struct.field(default_factory=dict)

  def add(self, values: Mapping[str, Array], mask: Array) -> Tally:
    """With values over the entries of `mask`: means, or maxima of "..._max".

    A name that is there already is continued: two terms may log one metric.
    """
    totals, weights = dict(self.totals), dict(self.weights)
    maxima = dict(self.maxima)
    for name, value in values.items():
      if name.endswith("_max"):
        largest = jnp.max(jnp.where(mask, value, -jnp.inf))
        maxima[name] = jnp.maximum(maxima.get(name, -jnp.inf), largest)
      else:
        total = jnp.sum(jnp.where(mask, value, 0.0))
        totals[name] = totals.get(name, 0.0) + total
        weights[name] = weights.get(name, 0.0) + mask.sum().astype(jnp.float32)
    return self.replace(totals=totals, weights=weights, maxima=maxima)

  def add_sums(self, values: Mapping[str, Array]) -> Tally:
    """With parts that add up over slices."""
    return self.replace(sums=self.sums | values)

  def merge(self) -> dict[str, Array]:
    """`{name: value}` of slices on the last axis, of updates on those before.

    Sums are those of a mean update, means of all that was counted; 0 of none.
    """
    merged = {name: part.sum(-1).mean() for name, part in self.sums.items()}
    for name, total in self.totals.items():
      merged[name] = total.sum() / jnp.maximum(self.weights[name].sum(), 1.0)
    for name, value in self.maxima.items():
      largest = value.max()
      merged[name] = jnp.where(jnp.isneginf(largest), 0.0, largest)
    return merged
