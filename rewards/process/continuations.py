"""Continuations: how often the policy succeeds from a prefix of its own sample.

A prefix, the prompt and the first steps of a sample, becomes a prompt. The
policy completes it M times, and the task judges the whole completion. The
random numbers of a prefix depend on (prompt, sample, step) alone, so every
caller gets the same continuations, in any batch and order.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rewards.process import model
from rl import types
from rl.sampling import generation

Array = jax.Array
# (flat samples p S + s [N], steps [N]) -> successes [N, M] bool, on the host.
# They run on the host.
Evaluate = Callable[[np.ndarray, np.ndarray], np.ndarray]
# (prompts [N], completions [N, M, T], lengths, finished [N, M]) -> [N, M] bool.
Judge = Callable[[Array, Array, Array, Array], Array]


def prefix_prompts(
  tokens: types.Tokens, rows: Array, prefix_lengths: Array
) -> tuple[Array, Array]:
  """Prefixes of samples as left-padded prompts.

  Args:
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, flat indices of samples `p S + s`.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix.

  Returns:
    `[N, L + T]` int32 tokens and bool mask.
  """
  samples, length = tokens.completions.shape[1:]
  prompts = rows // samples
  completions = tokens.completions.reshape(-1, length)[rows]
  joined = jnp.concatenate([tokens.prompts[prompts], completions], -1)
  real = jnp.concatenate(
    [tokens.prompt_mask[prompts], jnp.ones(completions.shape, bool)], -1
  )
  # Shifts each row right, so that the prefix ends at the last position.
  source = jnp.arange(joined.shape[-1]) - (length - prefix_lengths)[:, None]
  inside = source >= 0
  source = jnp.maximum(source, 0)
  real = inside & jnp.take_along_axis(real, source, -1)
  return jnp.where(real, jnp.take_along_axis(joined, source, -1), 0), real


def complete(
  policy: types.Policy,
  params: types.PyTree,
  tokens: types.Tokens,
  rows: Array,
  prefix_lengths: Array,
  keys: Array,
  sampling: generation.Sampling,
) -> tuple[Array, Array, Array]:
  """M completions that each start with a prefix of a sample.

  Args:
    policy: the policy that continues.
    params: parameters of the policy.
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, flat indices of samples `p S + s`.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix; the
      prefix must not have ended.
    keys: `[N]` PRNG keys, one per prefix.
    sampling: sampling settings; `samples` is M. Completions are cut at T
      tokens.

  Returns:
    completions `[N, M, T]`, lengths `[N, M]`, and finished `[N, M]`, True if
    the completion ended by EOS within T tokens.
  """
  prompts, mask = prefix_prompts(tokens, rows, prefix_lengths)
  samples = generation.generate(policy, params, prompts, mask, keys, sampling)
  return attach(tokens, rows, prefix_lengths, samples, sampling.pad_id)


def attach(
  tokens: types.Tokens,
  rows: Array,
  prefix_lengths: Array,
  continued: generation.Samples,
  pad_id: int,
) -> tuple[Array, Array, Array]:
  """Joins prefixes and their continuations to completions.

  Args:
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, flat indices of samples `p S + s`.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix.
    continued: M continuations of each prefix.
    pad_id: token id after the end.

  Returns:
    Same as `complete`.
  """
  size = tokens.completions.shape[-1]
  prefix = tokens.completions.reshape(-1, size)[rows][:, None]
  t, prefix_lengths = jnp.arange(size), prefix_lengths[:, None]  # [T], [N, 1]
  last = continued.completions.shape[-1] - 1
  after = jnp.clip(t - prefix_lengths, 0, last)[:, None]  # [N, 1, T]
  added = jnp.take_along_axis(continued.completions, after, -1)
  lengths = prefix_lengths + continued.lengths
  joined = jnp.where(t < prefix_lengths[..., None], prefix, added)
  joined = jnp.where(t < lengths[..., None], joined, pad_id)
  finished = continued.finished & (lengths <= size)
  return joined, jnp.minimum(lengths, size), finished


def evaluator(
  policy: types.Policy,
  params: types.PyTree,
  rollout: types.Rollout,
  judge: Judge,
  sampling: generation.Sampling,
  batch: int,
) -> Evaluate:
  """Returns a function that counts successful continuations, batch by batch.

  The last step of a sample leaves nothing to continue, so the verdict of the
  sample counts M times, at no cost.

  Args:
    policy: the policy that continues, usually the one that sampled.
    params: parameters of the policy.
    rollout: scored samples with `step_ids` and `step_mask`.
    judge: jittable function that returns whether completions are right.
    sampling: sampling settings; `samples` is M.
    batch: number of prefixes to continue at once; the last batch is padded.

  Returns:
    `(rows [N], steps [N]) -> [N, M]` bool, for steps that exist.

  Raises:
    ValueError: a sample has no verdict.
  """
  unknown = int((np.asarray(rollout.correct) < 0).sum())
  if unknown:
    raise ValueError(
      f"{unknown} of {rollout.correct.size} samples have no verdict, the value "
      "of their last step; leave these samples out"
    )
  ends, _ = model.step_ends(rollout.step_ids, rollout.step_mask.shape[-1])
  tokens, samples = rollout.tokens, rollout.scores.shape[1]

  @jax.jit
  def successes(params, tokens, ends, keys, rows, steps):
    fold = jax.vmap(jax.random.fold_in)
    keys = fold(fold(keys[rows // samples], rows % samples), steps)
    prefix = ends.reshape(-1, ends.shape[-1])[rows, steps] + 1
    joined = complete(policy, params, tokens, rows, prefix, keys, sampling)
    return judge(rows // samples, *joined)

  last = np.asarray(rollout.step_mask).sum(-1).reshape(-1) - 1
  correct = np.asarray(rollout.correct).reshape(-1) == 1

  def evaluate(rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    rows, steps = np.asarray(rows, np.int32), np.asarray(steps, np.int32)
    results = np.repeat(correct[rows][:, None], sampling.samples, -1)
    (open_,) = np.nonzero(steps < last[rows])
    for start in range(0, len(open_), batch):
      chosen = open_[start : start + batch]
      padded = np.resize(chosen, batch)
      verdicts = successes(
        params, tokens, ends, rollout.keys, rows[padded], steps[padded]
      )
      results[chosen] = np.asarray(verdicts)[: len(chosen)]
    return results

  return evaluate
