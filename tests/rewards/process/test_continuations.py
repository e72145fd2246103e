"""Tests of `rewards.process.continuations`: prefixes and what follows them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_decoders

from models import policy
from models.rope import RopeScaling
from rewards.process import continuations
from rl import scoring, types
from rl.sampling import generation


def _tokens():
  """Two prompts, the first of two tokens, with two completions each."""
  completions = jnp.array(
    [
      [[11, 12, 13, 14], [21, 22, 23, 24]],
      [[31, 32, 33, 34], [41, 42, 43, 44]],
    ]
  )
  return types.Tokens(
    prompts=jnp.array([[99, 1, 2], [3, 4, 5]]),
    prompt_mask=jnp.array([[False, True, True], [True] * 3]),
    completions=completions,
    lengths=jnp.full((2, 2), 4),
    mask=jnp.ones(completions.shape, bool),
  )


def test_a_prefix_follows_its_prompt_and_ends_at_the_last_position():
  """Rows 1, 2 and 3 are samples 1, 0 and 1 of prompts 0, 1 and 1."""
  prompts, mask = continuations.prefix_prompts(
    _tokens(), jnp.array([1, 2, 3]), jnp.array([2, 4, 1])
  )
  expected = [
    [0, 0, 0, 1, 2, 21, 22],
    [3, 4, 5, 31, 32, 33, 34],
    [0, 0, 0, 3, 4, 5, 41],
  ]
  np.testing.assert_array_equal(prompts, expected)
  np.testing.assert_array_equal(mask, np.array(expected) > 0)


def test_a_prefix_and_its_continuation_are_no_longer_than_a_sample():
  """The prompts of continuations have 7 tokens, and continuations up to 4."""
  sampling = generation.Sampling(2, 4, eos_ids=(9,), pad_id=0, top_k=3)
  settings = continuations.settings(sampling, _tokens(), 5)
  assert settings == generation.Sampling(
    5, 4, eos_ids=(9,), pad_id=0, top_k=3, max_length=7
  )
  # Continuations of continuations, whose prompts have room for 7 tokens.
  prompts, mask = continuations.prefix_prompts(
    _tokens(), jnp.array([1, 2]), jnp.array([2, 3])
  )
  tokens = _tokens().replace(prompts=prompts, prompt_mask=mask, max_length=7)
  assert continuations.settings(sampling, tokens, 5) == settings


@pytest.mark.parametrize(
  "config",
  [
    dataclasses.replace(
      small_decoders.BASE,
      rope_scaling=RopeScaling("dynamic", factor=4.0, original=3),
    ),
    # Short factors up to 7 tokens, which is the length of the longest text.
    dataclasses.replace(
      small_decoders.BASE,
      rope_scaling=RopeScaling(
        "longrope",
        original=7,
        short_factors=(1.0, 1.5),
        long_factors=(3.0, 9.0),
      ),
    ),
    # 7 tokens, of which the last is only predicted.
    dataclasses.replace(
      small_decoders.BASE, positions="learned", max_positions=6
    ),
  ],
  ids=["dynamic", "longrope", "learned"],
)
def test_continuations_are_drawn_and_scored_like_the_whole_sample(config):
  """Log-probs of the sampler, of the continuation and of the whole text."""
  tokens = _tokens()
  tokens = tokens.replace(
    prompts=tokens.prompts % 7 + 3, completions=tokens.completions % 7 + 3
  )
  rows, prefix_lengths = jnp.array([0, 3]), jnp.array([2, 1])
  prompts, mask = continuations.prefix_prompts(tokens, rows, prefix_lengths)
  sampling = generation.Sampling(2, 4, eos_ids=(0,), pad_id=0)
  settings = continuations.settings(sampling, tokens, 2)
  bound, params = policy.bind(config), small_decoders.generic(config)
  drawn = jax.jit(generation.generate, static_argnums=(0, 5))(
    bound, params, prompts, mask, jax.random.split(jax.random.key(0)), settings
  )
  completions, lengths, _ = continuations.attach(
    tokens, rows, prefix_lengths, drawn, 0
  )
  t = jnp.arange(4)
  joined = types.Tokens(
    prompts=tokens.prompts[rows // 2],
    prompt_mask=tokens.prompt_mask[rows // 2],
    completions=completions,
    lengths=lengths,
    mask=t < lengths[..., None],
  )
  num_drawn = jnp.minimum(drawn.lengths, 4 - prefix_lengths[:, None])
  continued = types.Tokens(
    prompts=prompts,
    prompt_mask=mask,
    completions=drawn.completions,
    lengths=num_drawn,
    mask=t < num_drawn[..., None],
    max_length=tokens.text_length,
  )

  @jax.jit
  def log_probs(params, tokens):
    probes = [scoring.log_probs]
    return scoring.read(bound, params, tokens, probes, types.Named())

  of_joined, of_continued = (
    np.asarray(log_probs(params, text)["log_probs"])
    for text in (joined, continued)
  )
  for n, start in enumerate([2, 1]):
    for m in range(2):
      end = int(lengths[n, m])
      count = end - start
      expected = drawn.log_probs[n, m, :count]
      assert count
      np.testing.assert_allclose(
        of_joined[n, m, start:end], expected, atol=1e-5
      )
      np.testing.assert_allclose(
        of_continued[n, m, :count], expected, atol=1e-5
      )


def test_continuations_are_joined_to_their_prefixes_and_cut_at_t():
  """Two continuations of each prefix, with tokens after their ends."""
  continued = generation.Samples(
    completions=jnp.array(
      [[[51, 52, 53], [61, 62, 63]], [[71, 72, 73], [81, 82, 83]]]
    ),
    lengths=jnp.array([[1, 3], [2, 3]]),
    log_probs=jnp.zeros((2, 2, 3)),
    finished=jnp.array([[True, True], [False, True]]),
  )
  completions, lengths, finished = continuations.attach(
    _tokens(), jnp.array([1, 2]), jnp.array([2, 1]), continued, 9
  )
  np.testing.assert_array_equal(
    completions,
    [[[21, 22, 51, 9], [21, 22, 61, 62]], [[31, 71, 72, 9], [31, 81, 82, 83]]],
  )
  np.testing.assert_array_equal(lengths, [[3, 4], [3, 4]])
  # The second one would have ended after 5 tokens, the last one ends after 4.
  np.testing.assert_array_equal(finished, [[True, False], [False, True]])
