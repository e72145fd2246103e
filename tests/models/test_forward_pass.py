"""Sizes of a forward pass, and tokens that are padded for several devices."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_decoders

from models import forward_pass, sharding, transformer
from rl import types

P, S, L, T = 2, 3, 5, 4
LENGTHS = np.array([[4, 0, 1], [2, 3, 4]])
CONFIG = dataclasses.replace(small_decoders.BASE, layers=1)


def batch(own_prompts=False, room=0) -> types.Tokens:
  rng = np.random.default_rng(0)
  lengths = np.array([5, 2])
  if own_prompts:
    lengths = np.array([[5, 2, 1], [3, 4, 5]])
  prompt_mask = np.arange(L) >= L - lengths[..., None]
  return types.Tokens(
    prompts=rng.integers(0, 11, prompt_mask.shape),
    prompt_mask=prompt_mask,
    completions=rng.integers(0, 11, (P, S, T)),
    lengths=LENGTHS,
    mask=np.arange(T) < LENGTHS[..., None],
    room=room,
  )


def test_inputs_are_prompts_and_all_but_the_last_token_of_completions():
  shared = forward_pass.count_inputs(batch())
  np.testing.assert_array_equal(shared, [5 + 3 + 0 + 0, 2 + 1 + 2 + 3])
  separate = forward_pass.count_inputs(batch(own_prompts=True))
  np.testing.assert_array_equal(separate, [8 + 3, 12 + 6])


def test_the_last_position_of_an_empty_prompt_is_packed():
  mask = np.array([[[False, False, False], [False, True, True]]])
  packed = forward_pass._packed_prompt_mask(mask)
  assert packed.tolist() == [[[False, False, True], [False, True, True]]]


def test_positions_of_a_padded_pass():
  """Three completions have 3 inputs each."""
  assert forward_pass.count_positions(batch()) == L + 3 * 3
  assert forward_pass.count_positions(batch(True)) == 3 * L + 3 * 3


@pytest.mark.parametrize(
  ("attention", "own_prompts", "room", "rows"),
  [
    # 4 of 14 positions are 0.86 of 3 rows, and one more row is added.
    ("plain", False, 4, 2),
    # 5 of 14 positions are 1.07 of 3 rows.
    ("plain", False, 5, 3),
    # There are no more rows than completions.
    ("plain", False, 14, 3),
    # Each completion has a row.
    ("splash", False, 4, 3),
    ("plain", True, 4, 3),
  ],
)
def test_rows_hold_the_share_of_positions_that_have_room(
  attention, own_prompts, room, rows
):
  config = dataclasses.replace(CONFIG, attention=attention)
  assert forward_pass.num_rows(config, batch(own_prompts, room)) == rows


def test_rows_that_completions_need():
  """Rows have 3 inputs; 3, 0 and 0 need one, and 1, 2 and 3 need two."""
  np.testing.assert_array_equal(forward_pass.count_rows(batch()), [1, 2])
  # 2, 2 and 2 do not fit into two rows, but 2, 1 and 1 do.
  tokens = batch().replace(lengths=np.array([[3, 3, 3], [3, 2, 2]]))
  np.testing.assert_array_equal(forward_pass.count_rows(tokens), [3, 2])
  # An empty completion takes no place from a full one.
  tokens = batch().replace(lengths=np.array([[4, 4, 0], [4, 0, 0]]))
  np.testing.assert_array_equal(forward_pass.count_rows(tokens), [2, 1])


def test_prompts_are_grouped_by_device_if_devices_divide_them():
  groups = [forward_pass.num_groups(*case) for case in ((8, 4), (6, 4), (3, 1))]
  assert groups == [4, 1, 1]


@pytest.mark.parametrize(
  ("room", "groups", "parts", "sizes"),
  [
    # 8 inputs; the last token of 2 prompts predicts 2 more tokens each.
    (4, 1, 1, (8, 12)),
    # A group of one prompt.
    (4, 2, 1, (4, 6)),
    # Rounded up to a multiple of 3 parts.
    (4, 1, 3, (9, 13)),
    (3, 1, 3, (6, 10)),
    # There are no more scored tokens than 2 * 3 * 4.
    (30, 1, 1, (60, 24)),
    (30, 2, 1, (30, 12)),
  ],
)
def test_sizes_of_packed_groups(room, groups, parts, sizes):
  observed = forward_pass.packed_sizes(batch(room=room), groups, parts)
  assert observed == sizes


def test_sequences_are_padded_to_the_parts_of_several_devices(monkeypatch):
  """5 prompt tokens and 3 inputs become 8 and 4, for 4 devices."""
  monkeypatch.setattr(sharding, "num_shards", lambda x, *axes: 4)
  tokens = batch()
  sequences = jax.jit(lambda tokens: forward_pass._sequences(tokens)[:6])(
    tokens
  )
  prompts, mask, positions, completions, completion_positions, lengths = map(
    np.asarray, sequences
  )
  np.testing.assert_array_equal(prompts[:, :3], 0)
  np.testing.assert_array_equal(prompts[:, 3:], tokens.prompts)
  assert not mask[:, :3].any()
  np.testing.assert_array_equal(mask[:, 3:], tokens.prompt_mask)
  np.testing.assert_array_equal(positions[0, 3:], range(5))
  np.testing.assert_array_equal(positions[1, -2:], [0, 1])
  np.testing.assert_array_equal(
    completions[..., :3], tokens.completions[..., :3]
  )
  np.testing.assert_array_equal(completions[..., 3:], 0)
  np.testing.assert_array_equal(
    completion_positions, [[[5, 6, 7, 8]], [[2, 3, 4, 5]]]
  )
  np.testing.assert_array_equal(lengths, LENGTHS[..., None])
  # The length that scales rotary embedding is that of the text alone.
  lengths = []
  jax.eval_shape(
    lambda: lengths.append(forward_pass._sequences(tokens).max_length)
  )
  assert lengths == [L + T]


def test_completions_with_own_prompts_are_the_only_one_of_theirs():
  tokens = batch(own_prompts=True)
  sequences = jax.jit(lambda tokens: forward_pass._sequences(tokens)[:6])(
    tokens
  )
  prompts, mask, _, completions, positions, lengths = sequences
  np.testing.assert_array_equal(prompts, tokens.prompts.reshape(6, L))
  np.testing.assert_array_equal(mask, tokens.prompt_mask.reshape(6, L))
  np.testing.assert_array_equal(
    completions, tokens.completions.reshape(6, 1, T)[..., :3]
  )
  np.testing.assert_array_equal(positions[:, 0, 0], [5, 2, 1, 3, 4, 5])
  np.testing.assert_array_equal(lengths, LENGTHS.reshape(6, 1, 1))


def hidden_states(tokens):
  """Those of scored tokens, 0 elsewhere; traced anew."""
  params = small_decoders.generic(CONFIG)

  @jax.jit
  def compute(params, tokens):
    if not tokens.room:
      hidden = forward_pass._padded_hidden_states.__wrapped__(
        CONFIG, params, tokens, 1.0
      )
    else:
      hidden, scored = forward_pass._packed_hidden_states.__wrapped__(
        CONFIG, params, tokens, 1.0
      )
      hidden = scored.unpack(hidden)
    return jnp.where(tokens.mask[..., None], hidden, 0)

  return compute(params, tokens)


def test_padding_for_several_devices_changes_nothing(monkeypatch):
  expected = hidden_states(batch())
  assert np.abs(expected[0, 0, 3]).max() > 0.1
  monkeypatch.setattr(
    sharding, "num_shards", lambda x, *axes: 4 if "context" in axes else 1
  )
  for room in (0, 8):
    np.testing.assert_allclose(
      hidden_states(batch(room=room)), expected, atol=1e-5
    )


def test_only_tokens_that_devices_split_are_constrained(monkeypatch):
  """Of the prompts and of the completions, if "context" has a size above 1."""
  params = transformer.init(CONFIG, jax.random.key(0))
  observed = []
  for size in (1, 2):
    monkeypatch.setattr(
      sharding,
      "num_shards",
      lambda x, *axes, size=size: size if "context" in axes else 1,
    )
    monkeypatch.setattr(
      sharding, "constrain", lambda x, *axes: observed.append(axes) or x
    )
    jax.eval_shape(
      functools.partial(
        forward_pass._padded_hidden_states.__wrapped__, CONFIG, depth=1.0
      ),
      params,
      tokens=batch(),
    )
  assert observed == [
    (sharding.PROMPT_AXES, "context"),
    (sharding.PROMPT_AXES, None, "context"),
  ]


def test_an_early_pass_has_neither_heads_nor_the_last_norm(monkeypatch):
  params = small_decoders.generic(CONFIG)
  norms = []
  monkeypatch.setattr(
    transformer, "final_norm", lambda config, params, x: norms.append(1) or x
  )
  for room in (0, 8):
    tokens = batch(room=room)
    pass_of = (
      forward_pass._packed_hidden_states
      if room
      else (forward_pass._padded_hidden_states)
    )
    for depth, count in ((0.5, 0), (1.0, 1)):
      norms.clear()
      jax.eval_shape(
        functools.partial(pass_of.__wrapped__, CONFIG, depth=depth),
        params,
        tokens=tokens,
      )
      assert len(norms) == count

  def whole_pass(params):
    for room in (0, 8):
      scored = forward_pass.score(CONFIG, params, batch(room=room))
      assert set(scored.heads) == {"logits"}

  jax.eval_shape(whole_pass, params)
