"""Continuations: completions of prefixes of samples, and their verdicts.

A prefix, which is the prompt and the first steps of a sample, becomes a prompt.
The policy completes it M times, and the task judges the whole completion. The
random numbers of a prefix depend only on the prompt's key, the sample and the
step, so the continuations do not depend on which prefixes share a batch.

Axes: P prompts, S samples per prompt, T completion tokens, L prompt tokens, N
prefixes, M continuations per prefix.
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
# (samples [N], steps [N]) -> successes [N, M] bool, numpy arrays. Sample s of
# prompt p has the number p S + s.
Evaluate = Callable[[np.ndarray, np.ndarray], np.ndarray]
# (indices of prompts [N], completions [N, M, T], lengths [N, M], finished
# [N, M]) -> [N, M] bool, the completions that are right.
Judge = Callable[[Array, Array, Array, Array], Array]


def prefix_prompts(
  tokens: types.Tokens, rows: Array, prefix_lengths: Array
) -> tuple[Array, Array]:
  """Returns prefixes of samples as left-padded prompts.

  Args:
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, numbers `p S + s` of the samples.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix.

  Returns:
    The tokens `[N, L + T]` int32, and their mask, False on padding.
  """
  samples, length = tokens.completions.shape[1:]
  prompts = rows // samples
  completions = tokens.completions.reshape(-1, length)[rows]
  joined = jnp.concatenate([tokens.prompts[prompts], completions], -1)
  real = jnp.concatenate(
    [tokens.prompt_mask[prompts], jnp.ones(completions.shape, bool)], -1
  )
  # Shifts each row right, so that the prefix ends at the last position.
  indices = jnp.arange(joined.shape[-1]) - (length - prefix_lengths)[:, None]
  inside = indices >= 0
  indices = jnp.maximum(indices, 0)
  real = inside & jnp.take_along_axis(real, indices, -1)
  return jnp.where(real, jnp.take_along_axis(joined, indices, -1), 0), real


def complete(
  policy: types.Policy,
  params: types.PyTree,
  tokens: types.Tokens,
  rows: Array,
  prefix_lengths: Array,
  keys: Array,
  sampling: generation.Sampling,
) -> tuple[Array, Array, Array]:
  """Samples M completions that start with each prefix.

  Args:
    policy: the policy that continues.
    params: parameters of the policy.
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, numbers `p S + s` of the samples.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix; the
      prefix must not have ended.
    keys: `[N]` PRNG keys, one per prefix.
    sampling: sampling settings; `samples` is M. Completions are cut at T
      tokens.

  Returns:
    completions `[N, M, T]`, which start with the tokens of the prefix; their
    lengths `[N, M]`; and finished `[N, M]`, True if EOS ended the completion
    within T tokens.
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
    rows: `[N]` int32, numbers `p S + s` of the samples.
    prefix_lengths: `[N]` int32, number of completion tokens in the prefix.
    continued: M continuations of each prefix.
    pad_id: token id after the end.

  Returns:
    Same as `complete`.
  """
  size = tokens.completions.shape[-1]
  prefix = tokens.completions.reshape(-1, size)[rows][:, None]
  t, prefix_lengths = jnp.arange(size), prefix_lengths[:, None]  # [T], [N, 1]
  # Positions before and after the continuation are replaced below.
  after = jnp.maximum(t - prefix_lengths, 0)[:, None]  # [N, 1, T]
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
  """Returns a function that continues prefixes and returns which succeed.

  After the last step of a sample there is nothing to continue; all M results
  are then the verdict of the sample.

  Args:
    policy: the policy that continues, usually the one that sampled.
    params: parameters of the policy.
    rollout: scored samples with `step_ids` and `step_mask`.
    judge: jittable function that returns whether completions are right.
    sampling: sampling settings; `samples` is M.
    batch: number of prefixes to continue at once; the last batch is padded.

  Returns:
    `(samples [N], steps [N]) -> [N, M]` bool, for steps that exist. A sample s
    of prompt p has the number `p S + s`.

  Raises:
    ValueError: a sample has no verdict.
  """
  unknown = int((np.asarray(rollout.correct) < 0).sum())
  if unknown:
    raise ValueError(
      f"{unknown} of {rollout.correct.size} samples have no verdict, which is "
      "the result after their last step; leave these samples out"
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
    (unfinished,) = np.nonzero(steps < last[rows])
    for start in range(0, len(unfinished), batch):
      chosen = unfinished[start : start + batch]
      padded = np.resize(chosen, batch)
      verdicts = successes(
        params, tokens, ends, rollout.keys, rows[padded], steps[padded]
      )
      results[chosen] = np.asarray(verdicts)[: len(chosen)]
    return results

  return evaluate
