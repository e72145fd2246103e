"""Random rollouts, to measure time and memory of an update."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rl import types


def make(
  vocab_size: int,
  prompts: int,
  samples: int,
  prompt_length: int,
  max_tokens: int,
  mean_length: float = 0.0,
  seed: int = 0,
) -> types.Rollout:
  """Returns a rollout of random ids and scores.

  Args:
    vocab_size: size of the vocabulary; ids are uniform over it.
    prompts: number of prompts P.
    samples: number of samples per prompt S.
    prompt_length: number of tokens of each prompt L.
    max_tokens: T, largest number of tokens of a completion.
    mean_length: mean of the lengths of completions, which are geometrically
      distributed and cut at T; 0 if all completions have T tokens.
    seed: seed of the ids, the scores and the lengths.
  """
  P, S, L, T = prompts, samples, prompt_length, max_tokens
  key = jax.random.key(seed)
  prompt_key, completion_key, score_key, sample_key = jax.random.split(key, 4)
  lengths = random_lengths((P, S), T, mean_length, seed)
  return types.Rollout(
    tokens=types.Tokens(
      prompts=jax.random.randint(prompt_key, (P, L), 0, vocab_size),
      prompt_mask=jnp.ones((P, L), bool),
      completions=jax.random.randint(completion_key, (P, S, T), 0, vocab_size),
      lengths=jnp.asarray(lengths, jnp.int32),
      mask=jnp.arange(T) < lengths[..., None],
    ),
    sample_mask=jnp.ones((P, S), bool),
    behavior_log_probs=jnp.zeros((P, S, T)),
    finished=jnp.ones((P, S), bool),
    scores=jax.random.uniform(score_key, (P, S)),
    correct=jnp.full((P, S), -1, jnp.int8),
    prompt_ids=jnp.arange(P, dtype=jnp.int32),
    keys=jax.random.split(sample_key, P),
    step=jnp.zeros((), jnp.int32),
  )


def random_lengths(
  shape: tuple[int, ...], max_tokens: int, mean: float, seed: int = 0
) -> np.ndarray:
  """Returns lengths of completions.

  Args:
    shape: shape of the result.
    max_tokens: largest length.
    mean: expected length of the geometric distribution, after it is cut at
      `max_tokens`; 0 gives `max_tokens` everywhere.
    seed: seed of the lengths.
  """
  if not mean:
    return np.full(shape, max_tokens)
  # With end probability p, the expected length is (1 - (1 - p)^T) / p, which
  # falls with p. Halve the interval that has the p of the desired mean.
  low, high = 1e-9, 1.0
  for _ in range(60):
    p = (low + high) / 2
    is_longer = (1 - (1 - p) ** max_tokens) / p > mean
    low, high = (p, high) if is_longer else (low, p)
  lengths = np.random.default_rng(seed).geometric(p, shape)
  return np.minimum(lengths, max_tokens)
