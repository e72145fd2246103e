"""Worked example of lambda-GRPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example

from rl import methods
from rl.methods.group import lambda_grpo

SCORES = [0.9, 0, 0.1, 0.4, 0.6, 0.3]
EXISTS = np.array([True, False, True, True, True, True])
# The second slot is empty; its tokens are those of the first sample.
COMPLETIONS = np.array(
  [[[7, 8, 9], [7, 8, 9], [7, 0, 0], [7, 5, 0], [4, 0, 0], [7, 8, 3]]]
)
# Lengths 3, -, 1, 2, 1, 3. Token 7 is shared by four samples, 7 8 by two.
COUNTS = np.array(
  [[[4, 2, 1], [1, 1, 1], [4, 1, 1], [4, 1, 1], [1, 1, 1], [4, 2, 1]]]
)


@pytest.mark.worked_example("method:lambda_grpo")
def test_a_token_is_divided_by_the_samples_that_share_its_prefix():
  example = clip_example.rollout(SCORES)
  example = example.replace(
    tokens=example.tokens.replace(completions=jnp.asarray(COMPLETIONS))
  )
  z = clip_example.z_score(SCORES, EXISTS, eps=1e-4)
  advantages = z[None, :, None] / COUNTS * clip_example.mask(example)
  clip_example.check_advantages(methods.get("lambda_grpo"), example, advantages)


@pytest.mark.worked_example("method:lambda_grpo")
def test_the_loss_of_completions_of_one_repeated_token():
  """Lengths 3, -, 1, 2, 1, 3: five samples have a token 0, three a token 1."""
  example = clip_example.rollout(SCORES)
  mask = clip_example.mask(example)
  z = clip_example.z_score(SCORES, EXISTS, eps=1e-4)
  advantages = z[None, :, None] / [5, 3, 2] * mask
  m = methods.get("lambda_grpo")
  clip_example.check_advantages(m, example, advantages)
  clip_example.check_clip(m, example, advantages, mask / mask.sum(), 0.2, 0.2)


def test_prompts_share_nothing():
  """The second prompt has the same completions in reverse order."""
  completions = np.concatenate([COMPLETIONS, COMPLETIONS[:, ::-1]])
  lengths = np.array([[3, 3, 1, 2, 1, 3]])
  lengths = np.concatenate([lengths, lengths[:, ::-1]])
  exists = np.stack([EXISTS, EXISTS[::-1]])
  counts = lambda_grpo.count_sharing(completions, lengths, exists)
  first = lambda_grpo.count_sharing(COMPLETIONS, lengths[:1], EXISTS[None])
  np.testing.assert_array_equal(counts[:1], first)
  np.testing.assert_array_equal(counts[1], first[0, ::-1])
  np.testing.assert_array_equal(first[0, 0], COUNTS[0, 0])
