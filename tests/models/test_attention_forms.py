"""Which keys each form reads, and attention written out query by query."""

import jax
import numpy as np
import pytest

from models import attention, attention_forms, attention_kernels, sharding
from models.attention import AttentionInputs

P, S, HEADS, KV_HEADS, N, L, D = 3, 2, 4, 2, 7, 5, 6
PADDING = np.array([0, 2, 4])  # of each prompt of L tokens, on the left
FIRST = 3  # the second completion of a row starts here


def make(is_prompt=False, window=None, starts=False) -> AttentionInputs:
  """Random heads of prompts or of completions, large enough to be selective."""
  rng = np.random.default_rng(0)
  S_or_1 = 1 if is_prompt else S

  def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)

  length = N if is_prompt else L
  return AttentionInputs(
    2 * normal(P, S_or_1, HEADS, N, D),
    (normal(P, S_or_1, KV_HEADS, N, D), normal(P, S_or_1, KV_HEADS, N, D)),
    None
    if is_prompt
    else (normal(P, KV_HEADS, L, D), normal(P, KV_HEADS, L, D)),
    np.arange(length) >= PADDING[:, None],
    window,
    starts=np.broadcast_to(np.where(np.arange(N) < FIRST, 0, FIRST), (P, S, N))
    if starts
    else None,
  )


def written_out(inputs: AttentionInputs, scale, softcap):
  """Attention in float64, one query at a time."""
  out = np.zeros(inputs.queries.shape)
  indices = range(inputs.queries.shape[3])
  for p, s, h, n in np.ndindex(out.shape[:-1]):
    g = h // (HEADS // KV_HEADS)
    start = 0 if inputs.starts is None else inputs.starts[p, s, n]
    pairs = []
    if inputs.prompt_keys_values is not None:
      keys, values = inputs.prompt_keys_values
      for i in range(L):
        seen = inputs.prompt_mask[p, i]
        if inputs.window is not None:
          # The prompt's token i is L - i positions before the completion.
          seen &= n - start + L - i < inputs.window
        pairs += [(keys[p, g, i], values[p, g, i])] * bool(seen)
    keys, values = inputs.keys_values
    for i in indices:
      seen = start <= i <= n
      if inputs.window is not None:
        seen &= n - i < inputs.window
      if inputs.prompt_keys_values is None:
        seen &= inputs.prompt_mask[p, i]
      pairs += [(keys[p, s, g, i], values[p, s, g, i])] * bool(seen)
    if not pairs:
      continue
    scores = np.array([inputs.queries[p, s, h, n] @ key for key, _ in pairs])
    scores = scores.astype(np.float64) * (scale or D**-0.5)
    if softcap:
      scores = softcap * np.tanh(scores / softcap)
    weights = np.exp(scores - scores.max())
    values = np.array([value for _, value in pairs])
    out[p, s, h, n] = weights @ values / weights.sum()
  return out


CASES = {
  "prompt": (make(is_prompt=True), 0.0, 0.0),
  "prompt with window and softcap": (make(True, window=3), 0.7, 1.5),
  "completions": (make(), 0.0, 0.0),
  "completions with window": (make(window=4), 0.7, 0.0),
  "rows with window": (make(window=4, starts=True), 0.0, 1.5),
}


def compute(form, inputs, scale, softcap):
  """The form, compiled; the window stays a number."""
  window = inputs.window
  return jax.jit(
    lambda inputs: attention_forms.attend(
      inputs._replace(window=window), form, scale, softcap
    )
  )(inputs._replace(window=None))


@pytest.mark.parametrize("case", CASES)
def test_blocks_give_the_attention_that_is_written_out(case, monkeypatch):
  monkeypatch.setattr(attention_forms, "MIN_BLOCK", 2)  # four blocks of 2
  np.testing.assert_allclose(
    compute("blocked", *CASES[case]), written_out(*CASES[case]), atol=1e-5
  )


@pytest.mark.parametrize("name", ["prompt", "rows with window"])
def test_all_pairs_give_the_attention_that_is_written_out(name):
  np.testing.assert_allclose(
    compute("plain", *CASES[name]), written_out(*CASES[name]), atol=1e-5
  )


def test_a_traced_window_in_blocks_is_that_number(monkeypatch):
  monkeypatch.setattr(attention_forms, "MIN_BLOCK", 2)
  inputs, *rest = CASES["completions with window"]
  result = jax.jit(
    lambda inputs: attention_forms.attend_in_blocks(inputs, *rest)
  )(inputs)
  np.testing.assert_allclose(result, written_out(inputs, *rest), atol=1e-5)


@pytest.mark.parametrize(
  "case", ["prompt with window and softcap", "completions"]
)
def test_parts_of_two_devices_give_the_attention_that_is_written_out(
  case, monkeypatch
):
  """Parts of 4 and 3 queries, each in two blocks of at most 3."""
  monkeypatch.setattr(attention_forms, "MIN_BLOCK", 3)
  inputs, *rest = CASES[case]
  mesh = sharding.make_mesh(1, context=2, devices=jax.devices()[:2])
  place = jax.NamedSharding(mesh, jax.P())
  placed = jax.device_put(inputs._replace(window=None), place)
  np.testing.assert_allclose(
    compute("blocked", placed._replace(window=inputs.window), *rest),
    written_out(inputs, *rest),
    atol=1e-5,
  )


@pytest.mark.parametrize(("least", "size"), [(3, 3), (64, 4)])
def test_a_device_computes_its_part_in_blocks_that_fit(
  least, size, monkeypatch
):
  """A part of 7 queries has 4; its blocks have no more, and at most 3."""
  monkeypatch.setattr(attention_forms, "MIN_BLOCK", least)
  sizes = []

  def record(inputs, queries, indices, *args):
    sizes.append((queries.shape[-2], *indices.shape))
    return queries

  monkeypatch.setattr(attention_forms, "_attend_queries", record)
  mesh = sharding.make_mesh(1, context=2, devices=jax.devices()[:2])
  inputs = jax.device_put(make(), jax.NamedSharding(mesh, jax.P()))
  jax.jit(
    lambda inputs: attention_forms.attend_in_blocks(inputs, 0.0, 0.0)
  ).trace(inputs)
  assert set(sizes) == {(size, size)}


def test_two_parts_are_computed_on_two_devices(monkeypatch):
  """Also with the fewest devices over which tokens can be split."""
  parts = []
  monkeypatch.setattr(
    attention_forms, "_attend_sharded", lambda *args: parts.append(args[3])
  )
  for context in (1, 2):
    mesh = sharding.make_mesh(
      1, context=context, devices=jax.devices()[:context]
    )
    inputs = jax.device_put(make(), jax.NamedSharding(mesh, jax.P()))
    jax.jit(
      lambda inputs: attention_forms.attend_in_blocks(inputs, 0.0, 0.0)
    ).trace(inputs)
  assert parts == [2]


@pytest.mark.parametrize(
  ("num_queries", "blocks"),
  [
    # Blocks of a quarter of the queries, rounded up, and of at least 64.
    (0, [(0, 0)]),
    (1, [(0, 1)]),
    (64, [(0, 64)]),
    (130, [(0, 64), (64, 128), (128, 130)]),
    (300, [(0, 75), (75, 150), (150, 225), (225, 300)]),
    (301, [(0, 76), (76, 152), (152, 228), (228, 301)]),
  ],
)
def test_queries_are_cut_into_four_blocks_of_at_least_64(
  num_queries, blocks, monkeypatch
):
  observed = []

  def record(inputs, scale, softcap, start, stop):
    observed.append((start, stop))
    return np.zeros((1, 1, 1, stop - start, 1))

  monkeypatch.setattr(attention_forms, "_attend_block", record)
  inputs = AttentionInputs(
    np.zeros((1, 1, 1, num_queries, 1)), None, None, None, None
  )
  out = attention_forms.attend_in_blocks(inputs, 0.0, 0.0)
  assert observed == blocks
  assert out.shape == (1, 1, 1, num_queries, 1)


@pytest.mark.parametrize(
  ("window", "starts", "start", "stop", "sizes"),
  [
    # Numbers of keys of the prompt, of 5 tokens, and of the completion.
    (None, False, 0, 2, [5, 2]),
    (None, False, 3, 5, [5, 5]),
    # Query 0 sees 2 tokens of the prompt, and query 1 one of them.
    (3, False, 0, 2, [2, 2]),
    (3, False, 1, 2, [1, 2]),
    # Query 2 sees 3 tokens of the completion, and none of the prompt.
    (3, False, 2, 4, [4]),
    # Query 3 does not see token 0, and query 5 sees tokens from 3 on.
    (3, False, 3, 4, [3]),
    (3, False, 5, 7, [4]),
    # A window that reaches beyond the prompt.
    (9, False, 0, 2, [5, 2]),
    # A later completion of the row begins near the prompt.
    (3, True, 5, 7, [5, 4]),
    # The size of a traced window is not known.
    (np.int32(3), False, 5, 7, [5, 7]),
  ],
)
def test_a_block_reads_the_keys_that_its_queries_see(
  window, starts, start, stop, sizes, monkeypatch
):
  observed = []

  def record(queries, key_sets, scale, softcap):
    observed.extend(keys.keys.shape[-1] for keys in key_sets)
    assert all(k.keys.shape[-1] == k.values.shape[-2] for k in key_sets)
    return queries

  monkeypatch.setattr(attention, "attend", record)
  inputs = make(window=window, starts=starts)
  jax.eval_shape(
    lambda: attention_forms._attend_block(inputs, 0.0, 0.0, start, stop)
  )
  assert observed == sizes


def test_kernels_are_those_of_their_module(monkeypatch):
  for form in ("splash", "cudnn"):
    monkeypatch.setattr(
      attention_kernels, form, lambda *args, form=form: (form, *args)
    )
    assert attention_forms.attend("inputs", form, 0.3, 2.0) == (
      form,
      *("inputs", 0.3, 2.0),
    )
