"""How often the policy still succeeds from a prefix of its own sample.

A prefix, the prompt and a sample's first steps, becomes a prompt; the policy
completes it M times and the task judges the whole. The randomness of a prefix is
fixed by (prompt, sample, step), so whoever asks about it, in whatever batch and
order, counts the same continuations.
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
Evaluate = Callable[[np.ndarray, np.ndarray], np.ndarray]
# (prompts [N], completions [N, M, T], lengths, finished [N, M]) -> [N, M] bool.
Judge = Callable[[Array, Array, Array, Array], Array]


def prefix_prompts(
  tokens: types.Tokens, rows: Array, kept: Array
) -> tuple[Array, Array]:
  """Prefixes of samples as prompts, left-padded.

  Args:
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, flat samples `p S + s`.
    kept: `[N]` int32, tokens of the completion that the prefix holds.

  Returns:
    `[N, L + T]` int32 and bool, which of them are real.
  """
  samples, room = tokens.completions.shape[1:]
  prompts = rows // samples
  completions = tokens.completions.reshape(-1, room)[rows]
  joined = jnp.concatenate([tokens.prompts[prompts], completions], -1)
  real = jnp.concatenate(
    [tokens.prompt_mask[prompts], jnp.ones(completions.shape, bool)], -1
  )
  # All is moved to the right until the last token kept is the last of all.
  source = jnp.arange(joined.shape[-1]) - (room - kept)[:, None]
  inside = source >= 0
  source = jnp.maximum(source, 0)
  real = inside & jnp.take_along_axis(real, source, -1)
  return jnp.where(real, jnp.take_along_axis(joined, source, -1), 0), real


def complete(
  policy: types.Policy,
  params: types.PyTree,
  tokens: types.Tokens,
  rows: Array,
  kept: Array,
  keys: Array,
  sampling: generation.Sampling,
) -> tuple[Array, Array, Array]:
  """M completions that each begin with a prefix of a sample.

  Args:
    policy, params: what continues.
    tokens: prompts `[P, L]` and completions `[P, S, T]`.
    rows: `[N]` int32, flat samples `p S + s`.
    kept: `[N]` int32, tokens of the completion that the prefix holds; it must
      not have ended.
    keys: `[N]`, one per prefix.
    sampling: `samples` is M. What exceeds T tokens in all is cut.

  Returns:
    completions `[N, M, T]`, lengths `[N, M]`, and finished `[N, M]`: ended by
    EOS within T.
  """
  prompts, mask = prefix_prompts(tokens, rows, kept)
  drawn = generation.generate(policy, params, prompts, mask, keys, sampling)
  return attach(tokens, rows, kept, drawn, sampling.pad_id)


def attach(
  tokens: types.Tokens,
  rows: Array,
  kept: Array,
  drawn: generation.Samples,
  pad_id: int,
) -> tuple[Array, Array, Array]:
  """Whole completions: the prefixes, and what was drawn after them.

  Args:
    tokens, rows, kept: as of `complete`.
    drawn: M continuations of each prefix.
    pad_id: what stands after the end.

  Returns:
    As of `complete`.
  """
  room = tokens.completions.shape[-1]
  prefix = tokens.completions.reshape(-1, room)[rows][:, None]
  t, kept = jnp.arange(room), kept[:, None]
  after = jnp.clip(t - kept, 0, drawn.completions.shape[-1] - 1)[:, None]
  added = jnp.take_along_axis(drawn.completions, after, -1)
  lengths = kept + drawn.lengths
  joined = jnp.where(t < kept[..., None], prefix, added)
  joined = jnp.where(t < lengths[..., None], joined, pad_id)
  finished = drawn.finished & (lengths <= room)
  return joined, jnp.minimum(lengths, room), finished


def evaluator(
  policy: types.Policy,
  params: types.PyTree,
  rollout: types.Rollout,
  judge: Judge,
  sampling: generation.Sampling,
  batch: int,
) -> Evaluate:
  """What counts the successes of prefixes, a batch at a time.

  The last step of a sample leaves nothing to continue: the sample's own verdict
  counts M times, and costs nothing.

  Args:
    policy, params: what continues; usually what drew the samples.
    rollout: the samples, judged, with `step_ids` and `step_mask`.
    judge: what says whether the completion of a prompt is right; jittable.
    sampling: `samples` is M.
    batch: prefixes that are continued at once; the last batch is padded.

  Returns:
    `(rows [N], steps [N]) -> [N, M]` bool, for steps that exist.

  Raises:
    ValueError: a sample has no verdict, of which nothing could be counted.
  """
  unknown = int((np.asarray(rollout.correct) < 0).sum())
  if unknown:
    raise ValueError(
      f"{unknown} of {rollout.correct.size} samples have no verdict, and a last "
      "step counts by it; leave them out"
    )
  ends, _ = model.step_ends(rollout.step_ids, rollout.step_mask.shape[-1])
  tokens, samples = rollout.tokens, rollout.scores.shape[1]

  @jax.jit
  def successes(params, tokens, ends, keys, rows, steps):
    fold = jax.vmap(jax.random.fold_in)
    keys = fold(fold(keys[rows // samples], rows % samples), steps)
    kept = ends.reshape(-1, ends.shape[-1])[rows, steps] + 1
    drawn = complete(policy, params, tokens, rows, kept, keys, sampling)
    return judge(rows // samples, *drawn)

  last = np.asarray(rollout.step_mask).sum(-1).reshape(-1) - 1
  correct = np.asarray(rollout.correct).reshape(-1) == 1

  def evaluate(rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    rows, steps = np.asarray(rows, np.int32), np.asarray(steps, np.int32)
    found = np.repeat(correct[rows][:, None], sampling.samples, -1)
    (open_,) = np.nonzero(steps < last[rows])
    for start in range(0, len(open_), batch):
      chosen = open_[start : start + batch]
      padded = np.resize(chosen, batch)
      counted = successes(
        params, tokens, ends, rollout.keys, rows[padded], steps[padded]
      )
      found[chosen] = np.asarray(counted)[: len(chosen)]
    return found

  return evaluate
