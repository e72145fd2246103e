"""A rollout that nobody sampled, to time or weigh updates on."""

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
  """Random ids and scores; prompts and completions are all real tokens.

  Args:
    vocab_size: V; ids are uniform below it.
    prompts, samples, prompt_length, max_tokens: P, S, L and T.
    seed: of the ids and the scores.
  """
  P, S, L, T = prompts, samples, prompt_length, max_tokens
  key = jax.random.key(seed)
  asked, drawn, scored = jax.random.split(key, 3)
  return types.Rollout(
    tokens=types.Tokens(
      prompts=jax.random.randint(asked, (P, L), 0, vocab_size),
      prompt_mask=jnp.ones((P, L), bool),
      completions=jax.random.randint(drawn, (P, S, T), 0, vocab_size),
      lengths=jnp.full((P, S), T, jnp.int32),
      mask=jnp.ones((P, S, T), bool),
    ),
    sample_mask=jnp.ones((P, S), bool),
    behavior_log_probs=jnp.zeros((P, S, T)),
    finished=jnp.ones((P, S), bool),
    scores=jax.random.uniform(scored, (P, S)),
    correct=jnp.full((P, S), -1, jnp.int8),
    prompt_ids=jnp.arange(P, dtype=jnp.int32),
    keys=jax.random.split(key, P),
    step=jnp.zeros((), jnp.int32),
  )
