"""The text that a process reward model reads: all tokens, or maths alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import fitted_model, small_decoders

from rewards.process import step_data, text_filter
from rl import types

WORDS = (50, 51, 52)
PAD = 50  # Padding may have the id of a word.


def lines(rows):
  """Returns lines of steps, each a list of ids, padded to ten tokens."""
  size = (len(rows), 1, 10)
  completions, step_ids = np.full(size, PAD), np.full(size, -1)
  for row, steps in enumerate(rows):
    ids = [token for step in steps for token in step]
    completions[row, 0, : len(ids)] = ids
    step_ids[row, 0, : len(ids)] = np.repeat(
      np.arange(len(steps)), [len(step) for step in steps]
    )
  lengths = (step_ids >= 0).sum(-1).astype(np.int32)
  data = step_data.unlabelled(
    types.Tokens(
      prompts=np.full((len(rows), 2), 7),
      prompt_mask=np.ones((len(rows), 2), bool),
      completions=completions,
      lengths=lengths,
      mask=step_ids >= 0,
    ),
    step_ids,
    3,
    np.ones((len(rows), 1), np.int8),
    np.arange(len(rows)),
  )
  return data.replace(token_values=10.0 * completions)


DATA = lines(
  [
    [[50, 51, 1, 2, 3], [52, 4, 5]],
    [[1, 2, 3], [50, 51], [6, 52, 7]],
    [[8], [9]],
  ]
)


def texts(data):
  """Returns, for each line, the pairs of token and step that are read."""
  tokens = data.tokens
  pairs = np.stack([tokens.completions, data.step_ids], -1)[:, 0]
  lengths = np.asarray(tokens.lengths)[:, 0]
  return [
    [tuple(pair) for pair in row[:length].tolist()]
    for row, length in zip(pairs, lengths, strict=True)
  ]


@pytest.mark.parametrize("xp", [np, jnp])
def test_words_are_left_out_and_everything_else_remains(xp):
  data = jax.tree.map(xp.asarray, DATA)
  filtered = text_filter.leave_out(data, WORDS)
  assert texts(filtered) == [
    [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1)],
    [(1, 0), (2, 0), (3, 0), (6, 2), (7, 2)],
    [(8, 0), (9, 1)],
  ]
  lengths = np.array([[5], [5], [2]])
  np.testing.assert_array_equal(filtered.tokens.lengths, lengths)
  exists = np.arange(10) < lengths[..., None]
  np.testing.assert_array_equal(filtered.tokens.mask, exists)
  assert (filtered.step_ids[~exists] == -1).all()
  values = np.where(exists, 10.0 * filtered.tokens.completions, 0)
  np.testing.assert_array_equal(filtered.token_values, values)
  # Labels belong to steps, whose numbers do not change.
  np.testing.assert_array_equal(filtered.values, DATA.values)


def test_leaving_out_twice_is_the_same_as_once():
  once = text_filter.leave_out(DATA, WORDS)
  twice = text_filter.leave_out(once, WORDS)
  for a, b in zip(jax.tree.leaves(once), jax.tree.leaves(twice), strict=True):
    np.testing.assert_array_equal(a, b)


def test_without_words_nothing_changes():
  assert text_filter.leave_out(DATA, ()) is DATA
  maths = jax.tree.map(lambda x: x[2:], DATA)
  assert texts(text_filter.leave_out(maths, WORDS)) == texts(maths)


def test_unscored_tokens_stay_unscored():
  mask = DATA.tokens.mask.copy()
  mask[0, 0, 3] = False  # the token 2
  data = DATA.replace(tokens=DATA.tokens.replace(mask=mask))
  filtered = text_filter.leave_out(data, WORDS)
  expected = [True, False, True, True, True]
  np.testing.assert_array_equal(filtered.tokens.mask[0, 0, :5], expected)


def test_a_model_that_reads_maths_scores_the_maths(tmp_path):
  decoder = dataclasses.replace(small_decoders.BASE, vocab_size=64)
  model, params = fitted_model.write(tmp_path, decoder)
  params["head"]["kernel"] /= 20  # scores far from -1 and 1
  reader = dataclasses.replace(model, left_out=(20, 21))
  with_words = lines([[[20, 1, 2, 3], [21, 4, 5]], [[1, 20, 2], [6, 7]]])
  bare = lines([[[1, 2, 3], [4, 5]], [[1, 2], [6, 7]]])
  scores = reader.scores(params, with_words)
  np.testing.assert_allclose(scores, model.scores(params, bare), atol=1e-5)
  assert np.abs(scores - model.scores(params, with_words)).max() > 1e-3
