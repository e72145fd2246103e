"""Stages: how a rollout is sampled, when once is not enough.

A stage turns a `Sampler`, which can draw completions of a batch of prompts and
have them judged, into a rollout: in one pass, in several with a budget by
prompt, with other parameters. It is made of the sampler's functions and `jnp`,
so it runs inside the fused loop where the task is jittable, and around host
verifiers where it is not. Samples are numbered and drawn by number, so a second
pass never repeats the first, and a stage that asks for nothing more gives the
bits of a rollout without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rl import types
from rl.sampling.generation import Samples

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Sampler:
  """One batch of prompts, ready to be drawn from.

  Attributes:
    policy: the model.
    params: that the method's behavior policy samples with.
    slots: the other parameter sets of the state.
    samples: S, slots per prompt of the rollout to be made.
    temperature: at which they are drawn.
    draw: `(params, count, first=0, active=None, temperature=None) -> Samples`,
      completions number `first` to `first + count - 1` of every prompt; see
      `rl.sampling.generation.generate`. None is the experiment's temperature.
    judge: `Samples -> Rollout`, scored by the task.
    extend: `(params, rollout, kept [P, S], count, active=None) -> Rollout
      [P S, count]`, completions of the first `kept` tokens of every sample, or
      of those that are `active` [P, S], judged as a whole: prompts are the
      prefixes, completions what was added. "stage/drawn" [P S, count] is how
      many tokens were drawn, those beyond T in all too, which are cut.
  """

  policy: types.Policy
  params: types.PyTree
  slots: Mapping[str, types.PyTree]
  samples: int
  temperature: float
  draw: Callable[..., Samples]
  judge: Callable[[Samples], types.Rollout]
  extend: Callable[..., types.Rollout]


@dataclasses.dataclass(frozen=True)
class Stage:
  """A named way to sample.

  Attributes:
    name: with its hyper-parameters.
    run: `(sampler, memory) -> rollout`, whose `memory` is the next one.
    init: `() -> memory`.
    gives: what it adds to the rollout of the task.
  """

  name: str
  run: Callable[[Sampler, Any], types.Rollout]
  init: Callable[[], Any] = tuple
  gives: tuple[str, ...] = ()

  def __str__(self) -> str:
    return self.name


def once() -> Stage:
  """All samples of every prompt in one pass."""

  def run(sampler: Sampler, memory: Any) -> types.Rollout:
    del memory
    return sampler.judge(sampler.draw(sampler.params, sampler.samples))

  return Stage("once()", run)


def greedy() -> Stage:
  """And the most likely completion of each prompt: "stage/greedy_scores" [P].

  NaN where it could not be scored.
  Source: Li et al. 2023, ReMax.
  """

  def run(sampler: Sampler, memory: Any) -> types.Rollout:
    rollout = once().run(sampler, memory)
    best = sampler.judge(sampler.draw(sampler.params, 1, temperature=0.0))
    return found(
      rollout,
      greedy_scores=jnp.where(best.sample_mask, best.scores, jnp.nan)[:, 0],
      tokens=rollout.lengths.sum() + best.lengths.sum(),
    )

  return Stage("greedy()", run, gives=("stage/greedy_scores",))


def second_pass(
  pilot: int,
  budget: Callable[[types.Rollout, int, Any], tuple[Array, Any]],
  name: str,
  init: Callable[[], Any] = tuple,
) -> Stage:
  """A pilot of every prompt, then as many more of each as its budget says.

  Shapes are static: the rollout has S slots, and those that a prompt does not
  get are no samples (`sample_mask`). pilot >= S switches the second pass off.

  Args:
    pilot: samples of every prompt in the first pass.
    budget: `(pilot rollout, most, memory) -> ([P] further samples, memory)`;
      `most` is S - pilot.
    name: for logs.
    init: of the memory.
  """

  def run(sampler: Sampler, memory: Any) -> types.Rollout:
    most = sampler.samples - pilot
    if most <= 0:
      return once().run(sampler, memory).replace(memory=memory)
    first = sampler.judge(sampler.draw(sampler.params, pilot))
    wanted, memory = budget(first, most, memory)
    return more(sampler, first, most, wanted).replace(memory=memory)

  return Stage(name, run, init)


def more(
  sampler: Sampler, rollout: types.Rollout, count: int, wanted: Array
) -> types.Rollout:
  """The rollout with `count` further slots, of which a prompt gets `wanted`.

  Args:
    sampler: of the same prompts.
    rollout: `[P, S]`, the samples 0 to S - 1.
    count: further slots of every prompt.
    wanted: `[P]`, how many of them are drawn.
  """
  active = jnp.arange(count) < wanted[:, None]
  first = rollout.sample_mask.shape[1]
  drawn = sampler.draw(sampler.params, count, first=first, active=active)
  new = sampler.judge(drawn)
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


def found(rollout: types.Rollout, **arrays: Array) -> types.Rollout:
  """The rollout with what a stage found, as "stage/NAME" in its extras."""
  found = {f"stage/{name}": array for name, array in arrays.items()}
  return rollout.replace(extras=rollout.extras.update(found))
