"""Extends samples: continuations of their prefixes, scored by the task.

`extend` and `branch` are functions of `rl.sampling.samplers.PromptBatch`, for
samplers that look ahead or grow trees.

Shapes: P prompts, S samples per prompt, T completion tokens, L prompt tokens, M
continuations of a prefix of each sample, N prefixes of any samples. A comment
such as `[P S, M]` is an array whose first axis has length P * S.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.task import Judged
from experiments.training import drawing
from rewards.process import continuations
from rl import types
from rl.sampling import generation, random_keys

Array = jax.Array


def extend(
  batch: drawing.Batch,
  keys: Array,
  sampling: generation.Sampling,
  params: types.PyTree,
  rollout: types.Rollout,
  prefix_lengths: Array,
  count: int,
  active: Array | None = None,
) -> types.Rollout:
  """Returns M continuations of a prefix of every sample, `[P S, M]`.

  Args:
    batch: the P problems of the rollout.
    keys: `[P]` PRNG keys of the prompts.
    sampling: settings with which the samples were drawn.
    params: parameters to draw from.
    rollout: rollout `[P, S]`.
    prefix_lengths: `[P, S]`, number of completion tokens in each prefix.
    count: M.
    active: `[P, S]` bool, the samples to continue; None means all.
  """
  batch.task.check_single_turn("the sampler")
  settings = continuations.settings(sampling, rollout.tokens, count)
  num_prompts, num_samples = prefix_lengths.shape
  rows, prefix_lengths = jnp.arange(prefix_lengths.size), prefix_lengths.ravel()
  # Each prefix is a prompt, [P S, L + T], with a PRNG key, [P S].
  prompts, prompt_mask = continuations.prefix_prompts(
    rollout.tokens, rows, prefix_lengths
  )
  fold = jax.vmap(jax.random.fold_in)
  sample_keys = fold(
    keys[rows // num_samples],
    # Counts down, so that it meets no number of a sample.
    random_keys.NOT_A_SAMPLE - 1 - rows % num_samples,
  )
  prefix_keys = fold(sample_keys, prefix_lengths)
  if active is not None:  # [P, S] -> [P S, M]
    active = jnp.repeat(jnp.reshape(active, (-1, 1)), count, 1)
  samples = batch.generate(
    params, prompts, prompt_mask, prefix_keys, settings, 0, active
  )
  # Completions [P S, M, T], lengths and finished [P S, M].
  texts = continuations.attach(
    rollout.tokens, rows, prefix_lengths, samples, sampling.pad_id
  )
  judged = batch.score(
    *(text.reshape(num_prompts, -1, *text.shape[2:]) for text in texts)
  )

  def by_prefix(array):  # [P, S M] -> [P S, M]
    return jnp.asarray(array).reshape(-1, count)

  is_scored = judged.scored
  if is_scored is None:
    is_scored = np.ones((num_prompts, num_samples * count), bool)
  # The task scored at most T tokens of a prefix with its continuation. Later
  # tokens of a continuation are masked out.
  # [P S, 1], largest number of tokens of a continuation.
  max_lengths = rollout.mask.shape[-1] - prefix_lengths[:, None]
  lengths = jnp.minimum(samples.lengths, max_lengths)
  mask = jnp.arange(samples.completions.shape[-1]) < lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts=prompts,
      prompt_mask=prompt_mask,
      completions=samples.completions,
      lengths=lengths,
      mask=mask,
      support=samples.support,
      max_length=rollout.tokens.text_length,
    ),
    sample_mask=by_prefix(is_scored) & rollout.sample_mask.reshape(-1, 1),
    behavior_log_probs=samples.log_probs,
    finished=samples.finished & (samples.lengths <= max_lengths),
    scores=by_prefix(judged.scores).astype(jnp.float32),
    correct=by_prefix(judged.correct).astype(jnp.int8),
    prompt_ids=jnp.repeat(rollout.prompt_ids, num_samples),
    keys=prefix_keys,
    step=rollout.step,
    extras=types.Named({"sampler/drawn": samples.lengths}),
  )


def branch(
  batch: drawing.Batch,
  keys: Array,
  sampling: generation.Sampling,
  params: types.PyTree,
  rollout: types.Rollout,
  rows: Array,
  prefix_lengths: Array,
  first: int,
) -> tuple[generation.Samples, Judged]:
  """Returns B new samples per prompt, which share prefixes with old samples.

  Args:
    batch, keys, sampling, params, rollout: same as in `extend`.
    rows: `[P, B]`, number of the sample of the prompt that has the prefix.
    prefix_lengths: `[P, B]`, number of completion tokens in each prefix.
    first: number of the first new sample among all branches.
  """
  batch.task.check_single_turn("the sampler")
  settings = continuations.settings(sampling, rollout.tokens, 1)
  num_samples = rollout.sample_mask.shape[1]
  shape = rows.shape  # (P, B)
  owners = jnp.repeat(jnp.arange(shape[0]), shape[1])
  rows = owners * num_samples + rows.ravel()
  prefix_lengths = prefix_lengths.ravel()
  prompts, prompt_mask = continuations.prefix_prompts(
    rollout.tokens, rows, prefix_lengths
  )
  # Counts down, so that it meets no number of a sample.
  numbers = random_keys.NOT_A_SAMPLE - 1 - first - jnp.arange(shape[1])
  branch_keys = jax.vmap(jax.random.fold_in)(
    keys[owners], jnp.tile(numbers, shape[0])
  )
  continued = batch.generate(
    params, prompts, prompt_mask, branch_keys, settings
  )
  samples = attach(
    rollout.tokens,
    rollout.behavior_log_probs,
    rows,
    prefix_lengths,
    continued,
    sampling.pad_id,
  )
  # [P B, 1, ...] -> [P, B, ...]
  samples = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[2:]), samples)
  judged = batch.score(samples.completions, samples.lengths, samples.finished)
  return samples, judged


def attach(
  tokens: types.Tokens,
  log_probs: Array,
  rows: Array,
  prefix_lengths: Array,
  continued: generation.Samples,
  pad_id: int,
) -> generation.Samples:
  """Joins prefixes and their continuations, with log-probs and support.

  Args:
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    log_probs: `[P, S, T]`, of the tokens of the completions.
    rows: `[N]`, numbers `p S + s` of the samples that have the prefixes.
    prefix_lengths: `[N]`, number of completion tokens in each prefix.
    continued: M continuations of each prefix, `[N, M]`.
    pad_id: token that fills arrays up.

  Returns:
    Samples `[N, M]`.
  """
  completions, lengths, finished = continuations.attach(
    tokens, rows, prefix_lengths, continued, pad_id
  )
  t = jnp.arange(completions.shape[-1])
  in_prefix = t < prefix_lengths[:, None]  # [N, T]
  after = jnp.maximum(t - prefix_lengths[:, None], 0)  # [N, T]
  in_text = t < lengths[..., None]  # [N, M, T]

  def join(array: Array, added: Array) -> Array:
    """Joins arrays of tokens, `[P, S, T, ...]` and `[N, M, T, ...]`."""
    tail = (1,) * (array.ndim - 3)
    old = array.reshape(-1, *array.shape[2:])[rows][:, None]  # [N, 1, T, ...]
    new = jnp.take_along_axis(added, after.reshape(len(rows), 1, -1, *tail), 2)
    joined = jnp.where(in_prefix.reshape(len(rows), 1, -1, *tail), old, new)
    return jnp.where(in_text.reshape(*in_text.shape, *tail), joined, 0)

  return generation.Samples(
    completions=completions,
    lengths=lengths,
    log_probs=join(log_probs, continued.log_probs),
    finished=finished,
    support=None
    if continued.support is None
    else join(tokens.support, continued.support),
  )
