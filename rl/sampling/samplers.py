"""Samplers: how many completions are drawn, from which parameters, in which passes.

A `Sampler` turns a `PromptBatch`, which can sample and score completions of a
batch of prompts, into a rollout: in one pass, in several passes with a budget
for each prompt, or from other parameters. It is written with the functions of
the batch and `jnp`, so that it runs inside the fused loop if the task's scorer
is jittable, and around compiled programs if it runs on the host.

Samples are numbered, and the random numbers of a sample depend on its number: a
second pass never repeats the first, and a sampler that draws nothing more gives
the same bits as `once`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rl import types

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class PromptBatch:
  """A batch of P prompts, with functions that sample and score completions.

  Attributes:
    policy: the model.
    params: parameters of the method's behavior policy.
    parameter_sets: further parameters of the training state, by name.
    samples: S, samples per prompt of the finished rollout.
    temperature: temperature of sampling.
    sample: `(params, count, first=0, active=None, temperature=None) -> Rollout`,
      the completions number `first` to `first + count - 1` of every prompt,
      scored by the task; see `rl.sampling.generation.generate`. A temperature
      of None is that of the config.
    extend: `(params, rollout, kept [P, S], count, active=None) -> Rollout
      [P S, count]`, completions of the first `kept` tokens of every sample, or
      of the samples in `active` [P, S]. The task scores a prefix and its
      completion as one text. Prompts of the result are the prefixes, and
      completions are what was added to them. Its extra "stage/drawn"
      [P S, count] counts the tokens drawn; those beyond T tokens in all are
      counted, and cut.
  """

  policy: types.Policy
  params: types.PyTree
  parameter_sets: Mapping[str, types.PyTree]
  samples: int
  temperature: float
  sample: Callable[..., types.Rollout]
  extend: Callable[..., types.Rollout]


@dataclasses.dataclass(frozen=True)
class Sampler:
  """A named way to sample.

  Attributes:
    name: name with its hyper-parameters.
    run: `(batch, memory) -> rollout`; the rollout's `memory` is given to the
      next call.
    init: `() -> memory`.
    gives: names of the extras or fields that it adds to a task's rollout.
  """

  name: str
  run: Callable[[PromptBatch, Any], types.Rollout]
  init: Callable[[], Any] = tuple
  gives: tuple[str, ...] = ()

  def __str__(self) -> str:
    return self.name


def once() -> Sampler:
  """Draws all samples of every prompt in one pass."""

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    del memory
    return batch.sample(batch.params, batch.samples)

  return Sampler("once()", run)


def greedy() -> Sampler:
  """Also draws the most likely completion of each prompt, as a baseline.

  Its score is the extra "stage/greedy_scores" [P], NaN if it has no score.
  Source: Li et al. 2023, ReMax.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    rollout = once().run(batch, memory)
    best = batch.sample(batch.params, 1, temperature=0.0)
    return add_extras(
      rollout,
      greedy_scores=jnp.where(best.sample_mask, best.scores, jnp.nan)[:, 0],
      tokens=rollout.scored_lengths.sum() + best.scored_lengths.sum(),
    )

  return Sampler("greedy()", run, gives=("stage/greedy_scores",))


def second_pass(
  pilot: int,
  budget: Callable[[types.Rollout, int, Any], tuple[Array, Any]],
  name: str,
  init: Callable[[], Any] = tuple,
) -> Sampler:
  """Draws a pilot of every prompt, then as many more as a budget says.

  Shapes are static: the rollout holds S samples of every prompt, and those
  beyond a prompt's budget are masked out (`sample_mask`). If pilot >= S there
  is no second pass.

  Args:
    pilot: samples of every prompt in the first pass.
    budget: `(pilot rollout, most, memory) -> (further samples [P], memory)`,
      where `most` is S - pilot.
    name: name in logs.
    init: `() -> memory`.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    most = batch.samples - pilot
    if most <= 0:
      return once().run(batch, memory).replace(memory=memory)
    first = batch.sample(batch.params, pilot)
    wanted, memory = budget(first, most, memory)
    return more(batch, first, most, wanted).replace(memory=memory)

  return Sampler(name, run, init)


def more(
  batch: PromptBatch, rollout: types.Rollout, count: int, wanted: Array
) -> types.Rollout:
  """Extends every group by `count` samples, of which a prompt gets `wanted`.

  Args:
    batch: the prompts of the rollout.
    rollout: `[P, S]`, the samples 0 to S - 1.
    count: number of further samples in the shape of the result.
    wanted: `[P]`, how many of them are drawn; the others are masked out.
  """
  active = jnp.arange(count) < wanted[:, None]  # [P, count]
  first = rollout.sample_mask.shape[1]
  new = batch.sample(batch.params, count, first=first, active=active)
  return join(rollout, new.replace(sample_mask=new.sample_mask & active))


def join(first: types.Rollout, more: types.Rollout) -> types.Rollout:
  """Two rollouts of the same prompts as one, with the samples of both.

  Raises:
    ValueError: what the task says of pairs of samples cannot be joined.
  """
  p, s = first.sample_mask.shape
  q = more.sample_mask.shape[1]
  if "task/preferences" in first.extras:
    raise ValueError(
      "task/preferences compare the samples of one pass; a stage with several "
      "passes needs a task without a pairwise judge"
    )

  def glue(a: Array, b: Array) -> Array:
    sampled = a.ndim >= 2 and a.shape[:2] == (p, s) and b.shape[:2] == (p, q)
    return jnp.concatenate([a, b], 1) if sampled else a

  def bare(tokens: types.Tokens) -> types.Tokens:
    if tokens.prompts.ndim == 3:  # each sample's own
      return tokens
    return tokens.replace(prompts=None, prompt_mask=None)

  def whole(joined: types.Tokens, shown: types.Tokens) -> types.Tokens:
    if joined.prompts is not None:
      return joined
    shared = {"prompts": shown.prompts, "prompt_mask": shown.prompt_mask}
    return joined.replace(**shared)

  both = jax.tree.map(
    glue,
    *(
      r.replace(
        tokens=bare(r.tokens),
        views={name: bare(view) for name, view in r.views.items()},
        keys=None,
      )
      for r in (first, more)
    ),
  )
  return both.replace(
    tokens=whole(both.tokens, first.tokens),
    views={name: whole(both.views[name], v) for name, v in first.views.items()},
    keys=first.keys,
  )


def add_extras(rollout: types.Rollout, **arrays: Array) -> types.Rollout:
  """Adds arrays to a rollout as the extras "stage/NAME"."""
  named = {f"stage/{name}": array for name, array in arrays.items()}
  return rollout.replace(extras=rollout.extras.update(named))
