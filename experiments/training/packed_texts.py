"""Packs the texts of a rollout, so that passes do not compute padding.

A packed forward pass has room for a number of tokens that is fixed when its
program is compiled (`rl.types.Tokens.room`). `pack` chooses it for every
rollout: the smallest of `SIZES`, times the positions of a padded pass, that the
tokens fit into. If none is large enough, the pass is padded. So a run compiles
at most `len(SIZES) + 1` train steps. The choice depends on the lengths alone: a
run that resumes makes it again, and all processes make the same one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from experiments.training.experiment import Experiment
from models import forward_pass, sharding
from models.config import ModelConfig
from rl import learners, method_loss, scoring, step, types
from rl.update_plan import Plan

Array = jax.Array
# Room of a packed pass, as a fraction of the positions of a padded one. From
# one size to the next, the time of an update grows by at most a factor of 2.
SIZES = (3 / 16, 3 / 8, 5 / 8)
# Completions of fewer tokens are not packed: to compile a further program takes
# longer than the positions that it saves.
MIN_LENGTH = 64


def packs(e: Experiment) -> bool:
  """Returns whether the rollouts of an experiment are packed.

  They are not if `config.packing` is off, if several steps are one program, or
  if completions are short.
  """
  # Configs from before 2026-11-26 lack the key. Their runs were padded.
  is_on = e.config.get("packing", False) and e.config.steps_per_dispatch == 1
  return is_on and e.sampling.max_tokens >= MIN_LENGTH


def pack(
  rollouts: step.Rollouts, model: ModelConfig, plan: Plan, mesh: Mesh
) -> step.Rollouts:
  """Gives the texts of a rollout room for their tokens; waits for the lengths.

  Args:
    rollouts: the rollout of a step, on the training mesh.
    model: shape of the decoder.
    plan: the plan of the updates.
    mesh: the training mesh.

  Returns:
    The rollout with `Tokens.room` of each text; 0 if no size is large enough.
  """
  by_learner = learners.by_learner(rollouts)
  # The texts of a rollout are its own and those of its views.
  texts = [
    text
    for rollout in by_learner.values()
    for text in (rollout.tokens, *rollout.views.values())
  ]
  size = choose_size(texts, model, plan, mesh)
  sized = {
    name: rollout.replace(
      tokens=with_size(rollout.tokens, size),
      views={
        view: with_size(text, size) for view, text in rollout.views.items()
      },
    )
    for name, rollout in by_learner.items()
  }
  return sized if isinstance(rollouts, dict) else sized[learners.POLICY]


def choose_size(
  texts: Sequence[types.Tokens], model: ModelConfig, plan: Plan, mesh: Mesh
) -> float:
  """Returns the smallest of `SIZES` that is enough for all texts, or 0.

  Args:
    texts: texts of one rollout.
    model, plan, mesh: same as in `pack`.
  """
  # The slices of passes without gradient, and those of updates.
  slicings = (plan.microbatches, plan.single.microbatches)
  shards = sharding.num_prompt_shards(mesh)
  required = jax.device_get(_required(texts, slicings, shards))

  def is_enough(size: float) -> bool:
    return all(
      room <= (sized := with_size(tokens, size)).room
      and rows <= forward_pass.num_rows(model, sized)
      for tokens, (room, rows) in zip(texts, required, strict=True)
    )

  return next(filter(is_enough, SIZES), 0.0)


def with_size(tokens: types.Tokens, size: float) -> types.Tokens:
  """Returns a text with room for a fraction of its positions; 0: padded."""
  room = math.ceil(size * forward_pass.count_positions(tokens))
  return tokens.replace(room=room)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _required(
  texts: Sequence[types.Tokens], slicings: tuple[int, ...], shards: int
) -> list[tuple[Array, Array]]:
  """Returns what each text needs per prompt: `Tokens.room`, and rows."""

  def largest_mean(counts: Array) -> Array:  # of `[P]`
    """Returns the largest mean over prompts of a slice and device, as int."""
    means = []
    # `rl.update_plan.split` cuts texts into these numbers of slices. Each slice
    # must have room, and so must the prompts of each device (shard).
    for slices in slicings:
      prompts = len(counts) // slices  # of a slice
      groups = forward_pass.num_groups(prompts, shards)
      # Slices are strided, and groups are consecutive prompts of a slice.
      totals = counts.reshape(groups, prompts // groups, slices).sum(1)
      means.append(-(-totals.max() // (prompts // groups)))
    return functools.reduce(jnp.maximum, means)

  return [
    (
      largest_mean(forward_pass.count_inputs(tokens)),
      largest_mean(forward_pass.count_rows(tokens)),
    )
    for tokens in texts
  ]


def padding_metrics(e: Experiment, rollouts: step.Rollouts) -> dict[str, Array]:
  """Computes which share of the computed positions is padding.

    perf/padding_frac/sampling  of the steps of all rows of the decoder; absent
                                if the method's sampler does not draw all
                                samples at once
    perf/padding_frac/scoring   of the passes without gradient; absent if the
                                method has none
    perf/padding_frac/updating  of the passes of the loss

  Positions of prompts count where prompts are computed.

  Args:
    e: the experiment.
    rollouts: the rollout of a step.
  """
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  passes = {
    "scoring": {
      (need.source, need.view)
      for need in method_loss.required(e.method, e.plan.updates)
      if need.source not in scoring.EXTERNAL_SOURCES
      and need not in rollout.extras
    },
    "updating": {("policy", "")}
    | {
      (need.source, need.view)
      for need in e.method.term_needs
      if need.source == "policy"
    },
  }
  fractions = {}
  for name, sources_and_views in passes.items():
    texts = [
      scoring.view_tokens(rollout, view) for _, view in sources_and_views
    ]
    if texts:
      real = sum(forward_pass.count_inputs(tokens).sum() for tokens in texts)
      computed = sum(
        len(tokens.lengths)
        * (tokens.room or forward_pass.count_positions(tokens))
        for tokens in texts
      )
      fractions[name] = 1 - real / computed
  if e.is_rl and e.method.sampler.reads_behavior_alone:
    fractions["sampling"] = _sampling_padding(e, rollout.tokens)
  return {
    f"perf/padding_frac/{name}": value for name, value in fractions.items()
  }


def _sampling_padding(e: Experiment, tokens: types.Tokens) -> Array:
  """Returns the share of padding in prefill and decoding, `[]`."""
  P, S = tokens.lengths.shape
  rows = min(e.sampling.rows or S, S)
  # The last token of a sample is not decoded. Samples go one after another to
  # the row of their prompt that is free first.
  steps = jnp.maximum(tokens.lengths - 1, 0)

  def place(row_steps: Array, steps: Array) -> tuple[Array, None]:
    row = jnp.argmin(row_steps, axis=-1)
    return row_steps.at[jnp.arange(P), row].add(steps), None

  row_steps, _ = jax.lax.scan(place, jnp.zeros((P, rows), steps.dtype), steps.T)
  computed = tokens.prompts.size + row_steps.max() * P * rows
  return 1 - (tokens.prompt_mask.sum() + steps.sum()) / computed
