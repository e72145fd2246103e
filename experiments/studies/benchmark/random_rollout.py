"""Random rollouts, to measure time and memory of an update."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import types


def make(
  vocab_size: int,
  prompts: int,
  samples: int,
  prompt_length: int,
  max_tokens: int,
  seed: int = 0,
) -> types.Rollout:
  """Returns a rollout of random ids and scores, without padding.

  Args:
    vocab_size: size of the vocabulary; ids are uniform over it.
    prompts: number of prompts P.
    samples: number of samples per prompt S.
    prompt_length: number of tokens of each prompt L.
    max_tokens: number of tokens of each completion T.
    seed: seed of the ids and the scores.
  """
  P, S, L, T = prompts, samples, prompt_length, max_tokens
  key = jax.random.key(seed)
  prompt_key, completion_key, score_key, sample_key = jax.random.split(key, 4)
  return types.Rollout(
    tokens=types.Tokens(
      prompts=jax.random.randint(prompt_key, (P, L), 0, vocab_size),
      prompt_mask=jnp.ones((P, L), bool),
      completions=jax.random.randint(completion_key, (P, S, T), 0, vocab_size),
      lengths=jnp.full((P, S), T, jnp.int32),
      mask=jnp.ones((P, S, T), bool),
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
