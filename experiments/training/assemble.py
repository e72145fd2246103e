"""Rollouts put together from what was asked, drawn and judged."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.task import Judged, Problems, supervised_tokens
from rewards.process import continuations
from rl import types
from rl.sampling import generation
from rl.step import State

Array = jax.Array
# Folded into a prompt's key for what is not sampling (bootstrap subsets):
# sample indices never get this far.
_NOT_A_SAMPLE = 2**31 - 1


def to_rollout(
  problems: Problems,
  samples: generation.Samples,
  judged: Judged,
  keys: Array,
  step: Array,
) -> types.Rollout:
  """What was asked, drawn and judged, as one rollout.

  Args:
    problems: P of them.
    samples: S completions of each.
    judged: what the task says of them.
    keys: `[P]`, those that the samples were drawn with.
    step: `[]` training step.
  """
  positions = jnp.arange(samples.completions.shape[-1])
  mask = positions < samples.lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=samples.completions,
      lengths=samples.lengths,
      mask=mask,
    ),
    sample_mask=(
      jnp.ones(samples.lengths.shape, bool)
      if judged.scored is None
      else jnp.asarray(judged.scored)
    ),
    behavior_log_probs=samples.log_probs,
    finished=samples.finished,
    scores=jnp.asarray(judged.scores, jnp.float32),
    correct=jnp.asarray(judged.correct, jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=jax.vmap(jax.random.fold_in, (0, None))(keys, _NOT_A_SAMPLE),
    step=step,
    components={k: jnp.asarray(v) for k, v in judged.components.items()},
    step_ids=judged.step_ids,
    step_scores=judged.step_scores,
    step_mask=judged.step_mask,
    views=judged.views,
    extras=types.Named(
      {
        f"task/{name}": jnp.asarray(value)
        for name, value in {
          "answer_ids": judged.answer_ids,
          **judged.extras,
        }.items()
      }
    ),
  )


def supervised_rollout(
  problems: Problems, shown: tuple[Array, Array], state: State
) -> types.Rollout:
  """Demonstrations as a rollout of one sample per prompt, scored 1."""
  completions, lengths = shown
  one = jnp.ones((completions.shape[0], 1))
  tokens = supervised_tokens(problems, completions, lengths)
  return types.Rollout(
    tokens=tokens,
    sample_mask=one > 0,
    behavior_log_probs=jnp.zeros(tokens.completions.shape),
    finished=one > 0,
    scores=one,
    correct=one.astype(jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=generation.prompt_keys(state.key, state.step, problems.ids),
    step=state.step,
  )


def prefixes(
  rollout: types.Rollout, kept: Array, keys: Array
) -> tuple[Array, Array, Array]:
  """Prefixes of all samples as prompts `[P S, L + T]`, mask, and keys."""
  p, s = kept.shape
  rows = jnp.arange(p * s)
  asked = continuations.prefix_prompts(rollout.tokens, rows, kept.reshape(-1))
  fold = jax.vmap(jax.random.fold_in)
  own = fold(fold(keys[rows // s], _NOT_A_SAMPLE - 1 - rows % s), kept.ravel())
  return *asked, own


def each(active: Array | None, count: int) -> Array | None:
  """Whose continuations are drawn, `[P, S] -> [P S, count]`; None: all."""
  if active is None:
    return None
  return jnp.repeat(jnp.reshape(active, (-1, 1)), count, 1)


def whole(
  rollout: types.Rollout, kept: Array, drawn: generation.Samples, pad_id: int
) -> tuple[Array, Array, Array]:
  """Continuations with their prefixes, `[P, S M, T]`, lengths and finished."""
  p, s = kept.shape
  rows = jnp.arange(p * s)
  whole = continuations.attach(
    rollout.tokens, rows, kept.reshape(-1), drawn, pad_id
  )
  return jax.tree.map(lambda x: x.reshape(p, -1, *x.shape[2:]), whole)


def extension(
  rollout: types.Rollout,
  prefixes: tuple[Array, Array, Array],
  kept: Array,
  drawn: generation.Samples,
  judged: Judged,
) -> types.Rollout:
  """Continuations `[P S, M]` as a rollout of their own.

  What a continuation says beyond T tokens in all was not judged, and is cut.
  """
  prompts, real, keys = prefixes
  p, s = rollout.sample_mask.shape
  m = drawn.lengths.shape[1]
  rows = lambda x: jnp.asarray(x).reshape(p * s, m)  # noqa: E731
  scored = rows(
    np.ones((p, s * m), bool) if judged.scored is None else judged.scored
  )
  room = rollout.mask.shape[-1] - kept.reshape(-1, 1)
  lengths = jnp.minimum(drawn.lengths, room)
  mask = jnp.arange(drawn.completions.shape[-1]) < lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(prompts, real, drawn.completions, lengths, mask),
    sample_mask=scored & rollout.sample_mask.reshape(-1, 1),
    behavior_log_probs=drawn.log_probs,
    finished=drawn.finished & (drawn.lengths <= room),
    scores=rows(judged.scores).astype(jnp.float32),
    correct=rows(judged.correct).astype(jnp.int8),
    prompt_ids=jnp.repeat(rollout.prompt_ids, s),
    keys=keys,
    step=rollout.step,
    extras=types.Named({"stage/drawn": drawn.lengths}),
  )
