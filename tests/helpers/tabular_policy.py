"""A policy whose parameters are its own hidden states, and random rollouts.

Its gradient is the gradient at every single position, so what leaks from
padding or from a slot that does not exist shows up where it leaks. A prompt's
first token is its row of the parameters, so any slice of a batch finds its own.
"""

import jax
import numpy as np
from jax.tree_util import Partial

from models import forward_pass, packing, sharding
from rl import types

P, S, T, K, V = 4, 6, 7, 3, 5


def _score(params, tokens, depth=1.0):
  samples, length = tokens.completions.shape[1:]
  is_prompt = tokens.prompts.shape[-1] == 1  # the view of its own tokens
  separate = params["prompt" if is_prompt else "hidden"][tokens.prompts[:, 0]]
  heads = {"logits": Partial(_logits), "value": Partial(_value)}
  # States of earlier layers differ by a factor.
  hidden = depth * separate[:, :samples, :length]
  if not tokens.room:
    return types.Scored(hidden, heads)
  prompts = len(hidden)
  shards = sharding.num_shards(hidden, *sharding.PROMPT_AXES)
  groups = forward_pass.num_groups(prompts, shards)
  size = prompts * samples * length // groups
  scored = packing.ScoredTokens.of(tokens.mask, groups, 1, size)
  return forward_pass.packed_result(heads, scored.pack(hidden), scored)


def _logits(hidden):
  return hidden[..., :V]


def _value(hidden):
  return hidden[..., V]


def _undefined(*args):
  raise AssertionError("a free policy has nothing to decode", args)


policy = types.Policy(_score, _undefined, _undefined)


def params(seed=0, p=P, s=S, t=T):
  key = jax.random.key(seed)
  return {
    "hidden": jax.random.normal(key, (p, s, t, V + 1)),
    "prompt": jax.random.normal(jax.random.fold_in(key, 1), (p, 1, t, V + 1)),
  }


def rollout(seed=0, p=P, s=S, t=T, k=K, ragged=True, garbage=0.0):
  """A random rollout; `garbage` is what stands in masked float entries."""
  rng = np.random.default_rng(seed)
  lengths = rng.integers(k, t + 1, (p, s))
  mask = np.arange(t) < lengths[..., None]
  sample_mask = np.ones((p, s), bool)
  if ragged:
    for row in range(p):
      sample_mask[row, rng.integers(s - 2, s + 1) :] = False
  step_ids = np.minimum(np.arange(t) * k // lengths[..., None], k - 1)
  step_ids = np.where(mask, step_ids, -1)
  step_mask = np.arange(k) <= step_ids.max(-1)[..., None]
  correct = (rng.random((p, s)) < 0.5).astype(np.int8)
  correct[0, :2] = (0, 1)[:s]  # at least one group is mixed
  if p > 1:  # and one has a single right sample
    correct[-1] = np.arange(s) == 1
  scores = np.where(correct == 1, 1.0, rng.random((p, s)).round(1) / 2)
  step_scores = rng.uniform(-1, 1, (p, s, k))
  # Odd samples copy the first action of the sample before.
  creators = np.broadcast_to(np.arange(s)[:, None], (p, s, k)).copy()
  creators[..., 0] -= np.arange(s) % 2
  log_probs = -rng.uniform(0.1, 3.0, (p, s, t))
  real = mask & sample_mask[..., None]
  real_steps = step_mask & sample_mask[..., None]
  tokens = types.Tokens(
    prompts=np.column_stack([np.arange(p), rng.integers(0, V, (p, 3))]),
    prompt_mask=np.ones((p, 4), bool),
    completions=rng.integers(0, V, (p, s, t)),
    lengths=lengths,
    mask=mask,
  )
  # The last token of a sample is its reference answer.
  is_last = mask & (np.arange(t) == lengths[..., None] - 1)
  # One transfer; `jnp.asarray` would compile a program for each shape.
  return jax.device_put(
    types.Rollout(
      tokens=tokens,
      views={"reference": tokens.replace(mask=is_last)},
      sample_mask=sample_mask,
      behavior_log_probs=np.float32(np.where(real, log_probs, garbage)),
      finished=(rng.random((p, s)) < 0.8) | (np.arange(s) < 2),
      scores=np.float32(np.where(sample_mask, scores, garbage)),
      correct=correct,
      prompt_ids=np.arange(p),
      keys=jax.random.split(jax.random.key(seed), p),
      step=np.int32(0),
      step_ids=step_ids,
      step_scores=np.float32(np.where(real_steps, step_scores, garbage)),
      step_mask=step_mask,
      components={
        "accuracy": np.float32(np.where(sample_mask, correct == 1, garbage)),
        "format": np.float32(
          np.where(sample_mask, rng.random((p, s)) < 0.7, garbage)
        ),
      },
      extras=types.Named(
        {
          "task/answer_ids": np.where(
            correct == 1, 0, rng.integers(-1, 3, (p, s))
          ),
          "task/durations": np.float32(
            np.where(real_steps, rng.uniform(0.1, 9, (p, s, k)), garbage)
          ),
          "sampler/creators": creators,
          "sampler/greedy_scores": np.float32(rng.random(p)),
        }
      ),
    )
  )
