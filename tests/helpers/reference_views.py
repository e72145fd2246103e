"""A rollout with the probabilities of a reference answer, for worked examples.

There are four samples of one prompt, of which the last does not exist.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from helpers import worked_example
from rl import types

NAN = np.nan
# [P, S, R], of the reference's tokens after each thought.
PROBABILITIES = [
  [[0.9, 0.1, NAN], [0.5, 0.5, 0.8], [0.3, NAN, NAN], [0.7, 0.6, NAN]]
]
# [P, 1, R], after the prompt without a thought.
WITHOUT_THOUGHT = [[[0.6, 0.2, NAN]]]


def _tokens(probabilities: Any, completions: Any = None) -> types.Tokens:
  """Returns the tokens of a view, whose padding has the probability NaN."""
  mask = ~np.isnan(probabilities)
  p, _, _ = mask.shape
  if completions is None:
    completions = np.zeros(mask.shape)
  return types.Tokens(
    prompts=jnp.zeros((p, 1), jnp.int32),
    prompt_mask=jnp.ones((p, 1), bool),
    completions=jnp.asarray(completions, jnp.int32),
    lengths=jnp.asarray(mask.sum(-1)),
    mask=jnp.asarray(mask),
  )


def rollout(
  completions: Any = None, lengths: Any = None, **fields: Any
) -> types.Rollout:
  """Makes the rollout.

  Args:
    completions: `[P, S, R]`, the reference's tokens; None: 0.
    lengths: numbers of tokens of the samples; None: one token.
    **fields: further fields of the rollout.
  """
  return worked_example.rollout(
    np.zeros(4),
    lengths,
    sample_mask=jnp.array([[True, True, True, False]]),
    views={
      "reference": _tokens(PROBABILITIES, completions),
      "bare_reference": _tokens(WITHOUT_THOUGHT),
    },
    extras={
      "old@reference/log_probs": np.log(PROBABILITIES),
      "old@bare_reference/log_probs": np.log(WITHOUT_THOUGHT),
    },
    **fields,
  )
