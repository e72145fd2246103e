"""Samplers: how many completions are sampled, and in which sampling passes.

A `Sampler` makes a rollout from a `PromptBatch`, which has functions that
sample and score completions of P prompts. It may sample in one pass, in several
passes with a budget for each prompt, or with other parameters. Samplers use
these functions and `jnp` alone. Therefore they can be compiled to one program
if the score of the task is jittable, and can call several compiled programs if
it is computed on the host.

The samples of a prompt are numbered, and the random numbers of a sample depend
on its number. Hence a second pass does not repeat the samples of the first, and
the first pass gives the same bits as the first samples of `once`.

Axes: P prompts, S samples per prompt, T completion tokens, L prompt tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rl import UsageError, types

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class PromptBatch:
  """A batch of P prompts, with functions that sample and score completions.

  Attributes:
    policy: the model.
    params: parameters of the method's behavior policy.
    parameter_sets: further parameters of the training state, by name
      (`rl.parameter_sets`).
    samples: S, samples per prompt of the finished rollout.
    temperature: sampling temperature of the config.
    sample: `(params, count, first=0, active=None, temperature=None) ->
      Rollout`, the completions number `first` to `first + count - 1` of every
      prompt, scored by the task; see `rl.sampling.generation.generate`. A
      temperature of None is that of the config.
    extend: `(params, rollout, prefix_lengths [P, S], count, active=None) ->
      Rollout [P S, count]`, `count` continuations of a prefix of every sample,
      or of the samples in the mask `active` [P, S]. The task scores a prefix
      and its continuation as one text. The prompts of the result are the
      prefixes, and its completions the continuations. A continuation is cut so
      that prefix and continuation have at most T tokens. The extra
      "sampler/drawn" [P S, count] is the number of tokens that were sampled,
      including those that were cut off.
    branch: `(params, rollout, rows [P, B], prefix_lengths [P, B], first) ->
      Rollout [P, B]`, B new samples per prompt. New sample b of prompt p shares
      its first tokens with the sample `rows[p, b]`. The rest is drawn with the
      random numbers of the number `first` + b, and the task scores the sample.
      Its tokens, log-probs and support of the prefix are copied.
    answer_cue: token ids after which the policy states its answer; () if the
      task has none.
  """

  policy: types.Policy
  params: types.PyTree
  parameter_sets: Mapping[str, types.PyTree]
  samples: int
  temperature: float
  sample: Callable[..., types.Rollout]
  extend: Callable[..., types.Rollout]
  branch: Callable[..., types.Rollout]
  answer_cue: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sampler:
  """A named function that samples a rollout.

  Attributes:
    name: the name with its hyper-parameters.
    run: `(batch, memory) -> rollout`. *Memory* is state that the sampler
      carries from rollout to rollout: `Rollout.memory` of the result is the
      argument of the next call.
    init: `() -> memory`, the memory of the first call; `()` if there is none.
    gives: names of the extras and fields that it adds to the rollout.
    reads_behavior_alone: whether it draws every sample from the behavior policy
      in one pass, and reads no other parameters.
  """

  name: str
  run: Callable[[PromptBatch, Any], types.Rollout]
  init: Callable[[], Any] = tuple
  gives: tuple[str, ...] = ()
  reads_behavior_alone: bool = False

  def __str__(self) -> str:
    return self.name


def once() -> Sampler:
  """Samples all completions of every prompt in one pass."""

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    del memory
    return batch.sample(batch.params, batch.samples)

  return Sampler("once()", run, reads_behavior_alone=True)


def greedy() -> Sampler:
  """Also samples one completion per prompt at temperature 0, as a baseline.

  The score of the greedy completion is the extra "sampler/greedy_scores" [P];
  it is NaN if the task did not score it. The greedy completion itself is not
  part of the rollout. Source: Li et al. 2023, ReMax.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    rollout = once().run(batch, memory)
    greedy = batch.sample(batch.params, 1, temperature=0.0)  # [P, 1]
    return add_extras(
      rollout,
      greedy_scores=jnp.where(greedy.sample_mask, greedy.scores, jnp.nan)[:, 0],
      tokens=rollout.scored_lengths.sum() + greedy.scored_lengths.sum(),
    )

  return Sampler("greedy()", run, gives=("sampler/greedy_scores",))


def second_pass(
  pilot: int,
  budget: Callable[[types.Rollout, int, Any], tuple[Array, Any]],
  name: str,
  init: Callable[[], Any] = tuple,
) -> Sampler:
  """Samples some completions of every prompt, then more according to a budget.

  Shapes are static: the rollout is `[P, S]`, and the samples beyond the budget
  of a prompt do not exist (`Rollout.sample_mask` is False). If pilot >= S, all
  S samples are sampled in one pass, and the budget is not called.

  Args:
    pilot: number of samples of every prompt in the first pass.
    budget: `(rollout of the first pass, max_further, memory) -> (number of
      further samples [P], memory)`, where `max_further` is S - pilot.
    name: name of the sampler, in logs.
    init: `() -> memory`, the memory of the first call.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    max_further = batch.samples - pilot
    if max_further <= 0:
      return once().run(batch, memory).replace(memory=memory)
    first = batch.sample(batch.params, pilot)
    further, memory = budget(first, max_further, memory)  # [P]
    rollout = add_samples(batch, first, max_further, further)
    return rollout.replace(memory=memory)

  return Sampler(name, run, init)


def add_samples(
  batch: PromptBatch, rollout: types.Rollout, count: int, further: Array
) -> types.Rollout:
  """Adds `count` samples to every group, some of which may not exist.

  Args:
    batch: the prompts of the rollout.
    rollout: `[P, S]`, the samples 0 to S - 1.
    count: number of samples to add to the shape of the rollout.
    further: `[P]`, number of added samples that are sampled for each prompt;
      the others do not exist.

  Returns:
    The rollout, `[P, S + count]`.
  """
  active = jnp.arange(count) < further[:, None]  # [P, count]
  first = rollout.sample_mask.shape[1]
  new = batch.sample(batch.params, count, first=first, active=active)
  return join(rollout, new.replace(sample_mask=new.sample_mask & active))


def join(first: types.Rollout, second: types.Rollout) -> types.Rollout:
  """Joins two rollouts of the same prompts, `[P, S]` and `[P, Q]`.

  Arrays per sample are concatenated to `[P, S + Q, ...]`: all fields of a
  rollout, and the extras of the task, but for those that have one value per
  prompt (`prompt_ids`, `keys`, the view "bare_reference", the prompts that all
  samples share), the step and the memory. These, and the extras of the sampler,
  are those of the first rollout.

  Raises:
    UsageError: if the task compares pairs of samples. Pairs of which one sample
      is in each rollout have not been compared.
  """
  if "task/preferences" in first.extras:
    raise UsageError(
      "task/preferences compare the samples of one pass; choose a sampler with "
      "one pass, or a task that does not compare pairs of samples"
    )

  def glue(a: types.PyTree, b: types.PyTree) -> types.PyTree:
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y], 1), a, b)

  def glue_tokens(a: types.Tokens, b: types.Tokens) -> types.Tokens:
    if a.prompts.ndim == 3:  # [P, S, L], one prompt per sample
      return glue(a, b)
    samples = glue(*(t.replace(prompts=None, prompt_mask=None) for t in (a, b)))
    return samples.replace(prompts=a.prompts, prompt_mask=a.prompt_mask)

  per_sample = (
    *("sample_mask", "behavior_log_probs", "finished", "scores", "correct"),
    *("components", "step_ids", "step_scores", "step_mask", "turns"),
  )
  task_extras = {
    name: glue(array, second.extras[name])
    for name, array in first.extras.arrays.items()
    if name.startswith("task/")
  }
  return first.replace(
    tokens=glue_tokens(first.tokens, second.tokens),
    views={
      name: view
      if name in types.VIEWS_BY_PROMPT
      else glue_tokens(view, second.views[name])
      for name, view in first.views.items()
    },
    extras=first.extras.update(task_extras),
    **{n: glue(getattr(first, n), getattr(second, n)) for n in per_sample},
  )


def add_extras(rollout: types.Rollout, **arrays: Array) -> types.Rollout:
  """Adds arrays of the sampler to a rollout, as the extras "sampler/NAME"."""
  named = {f"sampler/{name}": array for name, array in arrays.items()}
  return rollout.replace(extras=rollout.extras.update(named))
