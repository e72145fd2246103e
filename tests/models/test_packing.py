"""Packed passes give what padded ones give, and leave out the padding."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_decoders
from helpers.small_decoders import generic

from models import (
  attention_forms,
  attention_kernels,
  forward_pass,
  packing,
  policy,
  transformer,
)
from models.attention import AttentionInputs
from rl import scoring, types

P, S, L, T, V = 2, 6, 5, 7, 11
BASE = dataclasses.replace(small_decoders.BASE, kv_heads=1, value_head=True)
CONFIGS = {
  "plain": BASE,
  "blocked, recomputed attention": dataclasses.replace(
    BASE, attention="blocked", remat="attention", tied_embeddings=True
  ),
  "in a loop, recomputed": dataclasses.replace(BASE, unroll=1, remat="full"),
  **small_decoders.VARIANTS,
}
# Attention kernels as they run on a CPU: splash in the interpreter, and the
# inputs of cuDNN with XLA. A decoder with another scale is traced anew.
KERNELS = {
  "splash": (
    functools.partial(attention_kernels.splash, interpret=True),
    dataclasses.replace(BASE, attention_scale=0.3),
  ),
  "cudnn": (
    functools.partial(attention_kernels.cudnn, implementation="xla"),
    dataclasses.replace(BASE, attention_scale=0.4),
  ),
}
LENGTHS = {
  "ragged": np.array([[0, 1, T, 3, 2, 1], [2, 2, 5, 0, 1, 4]]),
  "full": np.full((P, S), T),
  "equal": np.full((P, S), 3),
  "none": np.zeros((P, S), int),
}
PROMPT_LENGTHS = np.array([L, 2])


def batch(lengths, own_prompts=False) -> types.Tokens:
  """Random text; a tool wrote the second token of every completion."""
  rng = np.random.default_rng(0)
  prompt_lengths = PROMPT_LENGTHS
  if own_prompts:
    prompt_lengths = rng.integers(1, L + 1, (P, S))
  prompt_mask = np.arange(L) >= L - prompt_lengths[..., None]
  t = np.arange(T)
  return types.Tokens(
    prompts=rng.integers(0, V, prompt_mask.shape),
    prompt_mask=prompt_mask,
    completions=rng.integers(0, V, (P, S, T)),
    lengths=lengths,
    mask=(t < lengths[..., None]) & (t != 1),
  )


def least_room(tokens: types.Tokens) -> int:
  """The smallest room that is enough, counted token by token."""
  inputs = sum(max(n - 1, 0) for n in np.ravel(tokens.lengths))
  return -(-(int(np.sum(tokens.prompt_mask)) + inputs) // P)


@functools.partial(jax.jit, static_argnums=(0, 3))
def learn(config, params, tokens, chunk):
  """The gradient of a sum of probes at scored tokens, and the probes."""

  def loss(params):
    probes = scoring.read(
      policy.bind(config),
      params,
      tokens,
      [scoring.log_probs, scoring.entropy]
      + [scoring.values] * config.value_head,
      types.Named(),
      temperature=0.7,
      chunk=chunk,
    )
    values = {n: jnp.where(tokens.mask, x, 0) for n, x in probes.items()}
    weights = jnp.cos(jnp.arange(P * S * T, dtype=jnp.float32))
    weights = weights.reshape(P, S, T)
    return sum((weights * x).sum() for x in values.values()), values

  return jax.grad(loss, has_aux=True)(params)


def check_equal(config, tokens, chunk=None):
  """Compares a pass with the least room with a padded one."""
  packed = tokens.replace(room=least_room(tokens))
  expected = learn(config, generic(config), tokens, None)
  result = learn(config, generic(config), packed, chunk)
  for (path, one), other in zip(
    jax.tree_util.tree_leaves_with_path(expected),
    jax.tree.leaves(result),
    strict=True,
  ):
    scale = float(np.abs(one).max())
    np.testing.assert_allclose(
      other, one, atol=1e-5 * max(scale, 1e-2), err_msg=str(path)
    )
  return expected


@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_packed_pass_is_the_padded_one(lengths):
  gradients, values = check_equal(BASE, batch(LENGTHS[lengths]))
  if lengths != "none":
    assert np.abs(values["log_probs"]).max() > 0.1
    assert np.abs(gradients["embed"]["table"]).max() > 0.01


@pytest.mark.parametrize("name", CONFIGS)
def test_every_decoder_can_be_packed(name):
  check_equal(CONFIGS[name], batch(LENGTHS["ragged"]), chunk=3)


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_computes_packed_text(name, monkeypatch):
  kernel, config = KERNELS[name]
  forms = {**attention_forms.FORMS, "plain": kernel}
  monkeypatch.setattr(attention_forms, "FORMS", forms)
  check_equal(config, batch(LENGTHS["ragged"]))


def test_completions_with_prompts_of_their_own():
  check_equal(BASE, batch(LENGTHS["ragged"], own_prompts=True))


def test_a_prompt_may_be_empty():
  """A completion is then predicted from padding, which is 0."""
  tokens = batch(LENGTHS["ragged"])
  empty = np.array([[True], [False]])
  tokens = tokens.replace(prompt_mask=tokens.prompt_mask & ~empty)
  # The last position of the empty prompt is computed.
  counts = forward_pass.count_inputs(tokens)
  np.testing.assert_array_equal(counts, [1 + 6 + 2 + 1, 2 + 1 + 1 + 4 + 3])
  padded = learn(BASE, generic(BASE), tokens, None)
  packed = learn(BASE, generic(BASE), tokens.replace(room=11), None)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), packed, padded
  )


def test_one_token_too_many_is_not_a_number():
  tokens = batch(LENGTHS["ragged"])
  room = least_room(tokens)
  assert (room - 1) * P < int(forward_pass.count_inputs(tokens).sum())
  _, values = learn(BASE, generic(BASE), tokens.replace(room=room - 1), None)
  assert np.isnan(values["log_probs"]).any()
  _, values = learn(BASE, generic(BASE), tokens.replace(room=room), None)
  assert np.isfinite(values["log_probs"]).all()


def test_layers_compute_no_padding():
  """The tokens that go through an MLP, whose width no other array has."""
  tokens = batch(LENGTHS["equal"])
  room = least_room(tokens)

  def mlp_inputs(tokens):
    score = jax.jit(lambda *args: policy.bind(BASE).score(*args).hidden)
    text = score.lower(generic(BASE), tokens).as_text()
    pattern = rf"dot_general .*-> tensor<([\dx]+)x{BASE.mlp_width}xf32>"
    return set(re.findall(pattern, text))

  assert mlp_inputs(tokens) == {f"{P}x{L}", f"{P}x{S}x{T - 1}"}
  assert mlp_inputs(tokens.replace(room=room)) == {f"1x{room * P}"}


def test_a_compaction_moves_entries_to_the_front_and_back():
  mask = jnp.array([[False, True, True, False, True]])
  compaction = packing.Compaction.of(mask, 4)
  np.testing.assert_array_equal(compaction.sources, [[1, 2, 4, 5]])
  np.testing.assert_array_equal(compaction.targets, [[4, 0, 1, 4, 2]])
  x = jnp.array([[10.0, 11.0, 12.0, 13.0, 14.0]])
  packed = compaction.compact(x)
  np.testing.assert_array_equal(packed, [[11, 12, 14, 0]])
  padded = compaction.expand(packed)
  np.testing.assert_array_equal(padded, [[0, 11, 12, 0, 14]])
  # The gradient of entry i is the weight of the entry that it becomes.
  weights = jnp.array([[2.0, 3.0, 5.0, 7.0]])
  gradient = jax.grad(lambda x: (weights * compaction.compact(x)).sum())(x)
  np.testing.assert_array_equal(gradient, [[0, 2, 3, 0, 5]])
  # With room for two entries, the third is left out.
  short = packing.Compaction.of(mask, 2)
  np.testing.assert_array_equal(short.compact(x), [[11, 12]])
  np.testing.assert_array_equal(
    short.expand(jnp.array([[1.0, 2.0]])), [[0, 1, 2, 0, 0]]
  )


def test_completions_share_rows():
  """Rows of 7 tokens: 6, then 4 and 3, then 2 and 2 and 1."""
  lengths = jnp.array([[2, 6, 0, 3, 1, 4, 2]])
  row, start = packing.first_fit(lengths, 7)
  # Longest first: 6 | 4, 3 | 2, 2; the token of length 1 fits behind the 6.
  np.testing.assert_array_equal(row, [[2, 0, 0, 1, 0, 1, 2]])
  np.testing.assert_array_equal(start, [[0, 0, 7, 4, 6, 0, 2]])


@pytest.mark.parametrize("form", ["plain", "blocked", "cudnn"])
@pytest.mark.parametrize("window", [None, 4, 80])
def test_attention_of_a_row_is_that_of_its_completions(form, window):
  """Three completions of 70, 60 and 1 tokens in a row of 140."""
  rng = np.random.default_rng(0)
  bounds = [(0, 70), (70, 130), (130, 131)]
  forms = {**attention_forms.FORMS, "cudnn": KERNELS["cudnn"][0]}

  def normal(*shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)

  queries, keys, values = (normal(1, 1, heads, 140, 8) for heads in (4, 2, 2))
  prompt = normal(1, 2, 9, 8), normal(1, 2, 9, 8)
  prompt_mask = np.arange(9)[None] >= 2
  starts = np.zeros((1, 1, 140), np.int32)
  for first, end in bounds:
    starts[..., first:end] = first
  row = AttentionInputs(
    queries, (keys, values), prompt, prompt_mask, window, starts=starts
  )
  result = forms[form](row, 0.3, 0.0)
  for first, end in bounds:
    part = slice(first, end)
    alone = AttentionInputs(
      queries[..., part, :],
      (keys[..., part, :], values[..., part, :]),
      *(prompt, prompt_mask, window),
    )
    expected = forms["plain"](alone, 0.3, 0.0)
    np.testing.assert_allclose(
      result[..., part, :], expected, atol=1e-5, err_msg=str(part)
    )


def test_groups_and_parts():
  """Two groups of one prompt; scored tokens are dealt out to two parts."""
  prompts = jnp.array([[0, 1], [2, 3]])
  completions = jnp.array([[[4, 5]], [[6, 7]]])
  packed = packing.PackedSequences.of(
    jnp.array([[False, True], [True, True]]),
    jnp.array([[[True, True]], [[True, False]]]),
    groups=2,
    size=4,
    rows=1,
    row_size=2,
  )
  together = packed.pack(prompts, completions)
  np.testing.assert_array_equal(together, [[1, 4, 5, 0], [2, 3, 6, 0]])
  back = packed.unpack_for_attention(together)
  np.testing.assert_array_equal(back[0], [[0, 1], [2, 3]])
  np.testing.assert_array_equal(back[1], [[[4, 5]], [[6, 0]]])
  mask = jnp.array([[[True, False, True]], [[True, True, True]]])
  scored = packing.ScoredTokens.of(mask, groups=2, parts=2, size=3)
  x = jnp.arange(6).reshape(2, 1, 3) + 1
  parts = scored.pack(x)
  np.testing.assert_array_equal(parts, [[[1, 0], [3, 0]], [[4, 6], [5, 0]]])
  np.testing.assert_array_equal(
    scored.unpack(parts), [[[1, 0, 3]], [[4, 5, 6]]]
  )


@functools.partial(jax.jit, static_argnums=(0, 3))
def states_at(config, params, tokens, depth):
  """The hidden states of a depth, 0 where no token is scored."""
  hidden = scoring.Probe("h", lambda h, ids: h, head="hidden", depth=depth)
  values = scoring.read(
    policy.bind(config), params, tokens, [hidden], types.Named(), chunk=3
  )
  return jnp.where(tokens.mask[..., None], values["h"], 0)


@pytest.mark.parametrize("name", ["plain", *small_decoders.VARIANTS])
def test_a_pass_that_stops_early_is_that_of_fewer_layers(name, monkeypatch):
  """The decoder has three layers of several kinds, padded and packed."""
  config = dataclasses.replace(CONFIGS[name], layers=3)
  params = generic(config)
  tokens = batch(LENGTHS["ragged"])
  packed = tokens.replace(room=least_room(tokens))
  results = [
    states_at(config, params, tokens, depth) for depth in (0.1, 0.3, 0.7, 1.0)
  ]
  # Without the norm after the last layer.
  monkeypatch.setattr(transformer, "final_norm", lambda config, params, x: x)
  for count, depth in ((1, 0.1), (2, 0.3), (3, 0.7)):
    result = results[count - 1]
    # The number of tokens does not matter; with another one, it is traced anew.
    shallow = dataclasses.replace(config, layers=count, vocab_size=V + 1)
    fewer = params | {
      "layers": jax.tree.map(lambda x, n=count: x[:n], params["layers"])
    }
    expected = states_at(shallow, fewer, tokens, 1.0)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    np.testing.assert_allclose(
      states_at(config, params, packed, depth), expected, atol=1e-5
    )
  assert np.abs(results[3] - results[2]).max() > 0.1  # the norm


def test_layers_of_a_depth():
  """The pass stops after the layer with the index round(depth n)."""
  counts = {
    n: [
      transformer.num_computed(dataclasses.replace(BASE, layers=n), depth)
      for depth in (0.25, 0.5, 0.75, 0.9, 1.0)
    ]
    for n in (1, 2, 4, 28)
  }
  assert counts == {
    1: [1, 1, 1, 1, 1],
    2: [1, 2, 2, 2, 2],
    4: [2, 3, 4, 4, 4],
    28: [8, 15, 22, 26, 28],
  }


def test_a_pass_that_stops_early_has_no_heads():
  tokens = batch(LENGTHS["ragged"])
  scored = policy.bind(BASE).score(generic(BASE), tokens, 0.5)
  assert not scored.heads
  early = dataclasses.replace(scoring.log_probs, depth=0.5)
  with pytest.raises(ValueError, match=r"no head \['logits'\]"):
    scoring.read(
      policy.bind(BASE), generic(BASE), tokens, [early], types.Named()
    )


def test_completions_go_where_they_first_fit_the_longest_first():
  """Rows of width 4: 3 goes to row 0, 2 and 2 to row 1, then 1 to row 0."""
  row, start = packing.first_fit(jnp.array([[2, 3, 1, 2], [4, 4, 3, 1]]), 4)
  np.testing.assert_array_equal(row, [[1, 0, 0, 1], [0, 1, 2, 2]])
  np.testing.assert_array_equal(start, [[0, 0, 3, 2], [0, 0, 0, 3]])


@pytest.mark.parametrize(
  ("lengths", "rows", "size", "fits"),
  [
    # Two prompts of one token each in one group; a row has 4 tokens.
    ([[3, 3], [1, 2]], 3, 11, True),
    ([[3, 3], [1, 2]], 2, 11, False),  # enough room, and a row too few
    ([[3, 3], [1, 2]], 3, 10, False),  # enough rows, and a token too many
    ([[3, 1], [1, 2]], 2, 9, True),
    ([[3, 1], [1, 2]], 1, 9, False),
    # A row for each completion needs no packing.
    ([[4, 4], [4, 4]], 4, 18, True),
    ([[4, 4], [4, 4]], 4, 17, False),
  ],
)
def test_a_batch_fits_if_its_tokens_and_its_rows_do(lengths, rows, size, fits):
  masks = jnp.arange(4) < jnp.array(lengths)[..., None]
  layout = packing.PackedSequences.of(
    jnp.ones((2, 1), bool), masks, groups=1, size=size, rows=rows, row_size=4
  )
  assert layout.fits.tolist() == [fits]
  np.testing.assert_array_equal(layout.lengths, lengths)


def test_rows_of_a_group_know_their_prompt_and_where_completions_start():
  """Rows 0 and 1 are of prompt 0, row 2 of prompt 1."""
  masks = jnp.arange(4) < jnp.array([[3, 3], [1, 2]])[..., None]
  layout = packing.PackedSequences.of(
    jnp.ones((2, 1), bool), masks, groups=1, size=11, rows=3, row_size=4
  )
  np.testing.assert_array_equal(layout.row_prompts, [[0, 0, 1]])
  np.testing.assert_array_equal(
    layout.starts[:, 0], [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0]]
  )
  prompts = jnp.array([[10], [20]])
  completions = 100 * (jnp.arange(4) + 1) + jnp.arange(4).reshape(2, 2, 1)
  packed = layout.pack(prompts, completions)
  assert packed[0].tolist() == [
    *(10, 20),
    *(100, 200, 300),
    *(101, 201, 301),
    102,
    *(103, 203),
  ]
