"""How kernels lay out their arrays, with plain attention in their place."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu import splash_attention

from models import attention_forms, attention_kernels, sharding
from models.attention import AttentionInputs
from models.attention_kernels import CompletionsMask

P, HEADS, KV_HEADS, D = 3, 4, 2, 8


def make(S, N, L, window=None) -> AttentionInputs:
  """Random heads of completions, or of prompts if L is 0."""
  rng = np.random.default_rng(0)

  def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)

  pair = normal(P, S, KV_HEADS, N, D), normal(P, S, KV_HEADS, N, D)
  prompt = normal(P, KV_HEADS, L, D), normal(P, KV_HEADS, L, D)
  # Padding on the left of some prompts.
  mask = np.arange(L or N) >= np.array([[0], [1], [2]])
  return AttentionInputs(
    normal(P, S, HEADS, N, D), pair, prompt if L else None, mask, window
  )


class Kernel:
  """Stands for the kernel of splash: it computes all pairs with its mask.

  It checks the shapes that splash relies on, and notes its numbers of keys.
  """

  def __init__(self):
    self.columns = []

  def make(self, mask, *, block_sizes, attn_logits_soft_cap, **kwargs):
    assert kwargs == {"head_shards": 1, "q_seq_shards": 1, "interpret": False}
    mask = mask.masks[0]
    assert mask.rows % block_sizes.block_q == 0
    assert mask.columns % block_sizes.block_kv == 0
    see = mask[slice(0, mask.rows), slice(0, mask.columns)]

    def attend(queries, keys, values, segments):
      assert queries.shape == (HEADS, mask.rows, D)
      assert keys.shape == values.shape == (KV_HEADS, mask.columns, D)
      assert segments.q.shape == (mask.rows,)
      assert segments.kv.shape == (mask.columns,)
      assert segments.q.dtype == segments.kv.dtype == jnp.int32
      self.columns.append(mask.columns)
      keys, values = (jnp.repeat(x, 2, axis=0) for x in (keys, values))
      scores = jnp.einsum("hnd,hud->hnu", queries, keys)
      if attn_logits_soft_cap is not None:
        scores = attn_logits_soft_cap * jnp.tanh(scores / attn_logits_soft_cap)
      visible = see & (segments.q[:, None] == segments.kv)
      # Like the kernel, it divides by 0 if there is nothing to see.
      weights = jnp.where(visible, jnp.exp(scores), 0)
      weights /= weights.sum(-1, keepdims=True)
      return jnp.einsum("hnu,hud->hnd", weights, values)

    return attend


@pytest.fixture
def kernel(monkeypatch):
  kernel = Kernel()
  monkeypatch.setattr(splash_attention, "make_splash_mha", kernel.make)
  return kernel


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def compute(attend, inputs, scale, softcap):
  return attend(inputs, scale, softcap)


@pytest.mark.parametrize(
  ("S", "N", "L", "scale", "softcap", "columns"),
  [
    # Without a prompt's columns, a trunk has those of its rows alone.
    (1, 5, 0, 0.0, 0.0, 128),
    (1, 1, 0, 0.3, 2.0, 128),
    # Two completions of up to 64 tokens share 128 rows.
    (2, 1, 4, 0.0, 0.0, 256),
    (2, 64, 4, 0.3, 2.0, 256),
    # Longer ones have 128 rows each.
    (2, 65, 4, 0.3, 0.0, 384),
  ],
)
def test_splash_lays_out_one_sequence(S, N, L, scale, softcap, columns, kernel):
  inputs = make(S, N, L)
  result = jax.jit(
    lambda inputs: attention_kernels.splash(inputs, scale, softcap)
  )(inputs)
  assert kernel.columns == [columns]
  expected = compute(attention_forms.attend_all_pairs, inputs, scale, softcap)
  np.testing.assert_allclose(result, expected, atol=1e-5)


def test_only_blocks_with_a_token_that_is_read_are_computed(monkeypatch):
  """A completion is a block of 128 rows, since three of them are 384 rows."""
  lengths = np.array([[0, 1, 65], [65, 0, 0], [2, 0, 64]])
  inputs = make(3, 65, 4)._replace(lengths=jnp.asarray(lengths))
  observed = []

  def shard_kernel(kernel):
    def computed(queries, keys, values, *ids_and_blocks):
      observed.extend(ids_and_blocks)
      # The kernel divides by 0 in blocks that it leaves out.
      rows = jnp.repeat(ids_and_blocks[-1], 128, axis=1)
      return jnp.where(rows[:, None, :, None], queries, jnp.nan)

    return computed

  monkeypatch.setattr(attention_kernels, "_shard_kernel", shard_kernel)

  @jax.jit
  def attend(inputs):
    return attention_kernels.splash(inputs, 2.0, 0.0), observed

  result, (row_ids, column_ids, blocks) = attend(inputs)
  np.testing.assert_array_equal(blocks, lengths > 0)
  np.testing.assert_array_equal(row_ids, np.ones((P, 384)))
  # 124 columns of padding, the prompts, and the rows.
  np.testing.assert_array_equal(column_ids[:, :124], 0)
  np.testing.assert_array_equal(column_ids[:, 124:128], inputs.prompt_mask)
  np.testing.assert_array_equal(column_ids[:, 128:], 1)
  # What is not read is 0, also in a block that is computed.
  is_read = (np.arange(65) < lengths[..., None])[:, :, None, :, None]
  expected = np.where(is_read, 2 * inputs.queries, 0)
  np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
  ("S", "N", "L", "expected"),
  [
    # Rows, columns, rows of a completion, and sizes of blocks.
    (3, 64, 5, (256, 384, 64, 256, 384)),
    (3, 65, 5, (384, 512, 128, 128, 512)),
    (1, 32, 0, (128, 128, 32, 128, 128)),
    # Blocks of at most 512, of which 1,280 rows are no multiple.
    (5, 250, 300, (1280, 2048, 256, 256, 512)),
    (16, 129, 500, (4096, 4608, 256, 512, 512)),
  ],
)
def test_the_layout_of_completions(S, N, L, expected):
  mask, block, key_block = attention_kernels._layout(S, N, L, 7)
  assert (mask.prompt_length, mask.window) == (L, 7)
  sizes = mask.rows, mask.columns, mask.completion_size, block, key_block
  assert sizes == expected


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("capacity", [2, 3, 12])
def test_corners_of_a_block_tell_whether_it_is_uniform(capacity, window):
  """Every block of up to 4 rows and columns, wherever it begins."""
  rows, prompt, columns = 12, 3, 20
  mask = CompletionsMask(rows, columns, capacity, prompt, window)
  i, j = np.arange(rows)[:, None], np.arange(columns) - (columns - rows)
  causal = (i // capacity == j // capacity) & (j <= i)
  distance = np.where(j < 0, i % capacity - j, i - j)
  visible = np.where(j < 0, j >= -prompt, causal)
  if window is not None:
    visible &= distance < window
  for row, column in np.ndindex(rows - 3, columns - 3):
    for size in (1, 2, 4):
      part = slice(row, row + size), slice(column, column + size)
      np.testing.assert_array_equal(mask[part], visible[part])
      first = column - (columns - rows)
      last_row, last_column = row + size - 1, first + size - 1
      uniform = mask._uniform_value(row, last_row, first, last_column)
      expected = None
      if first >= 0 and visible[part].all():
        expected = True
      # What only the window hides is not read off the corners.
      if first >= 0 and not causal[part].any():
        expected = False
      assert uniform is expected, part


def test_masks_of_equal_layouts_are_the_same_key():
  """Splash keeps what it has computed from a mask in a dictionary."""
  masks = [CompletionsMask(128, 256, 64, 4, None) for _ in range(2)]
  assert len(set(masks)) == 1
  assert masks[0].shape == (128, 256)


@pytest.mark.parametrize(
  ("S", "N", "L", "shapes"),
  [
    # The padded numbers of queries and of keys: the next even number.
    (1, 3, 0, (4, 4)),
    (1, 1, 0, (2, 2)),
    (2, 1, 4, (2, 6)),
    (2, 3, 4, (4, 8)),
    (2, 2, 5, (2, 8)),
  ],
)
def test_cudnn_has_even_numbers_of_queries_and_keys(
  S, N, L, shapes, monkeypatch
):
  inputs = make(S, N, L, window=3)
  observed = []
  attend = jax.nn.dot_product_attention

  def record(queries, keys, values, mask, **kwargs):
    assert kwargs["implementation"] == "cudnn"
    assert keys.shape == values.shape
    assert mask.shape == (P * S, 1, queries.shape[1], keys.shape[1])
    observed.append((queries.shape[1], keys.shape[1]))
    return attend(
      queries, keys, values, mask=mask, **kwargs | {"implementation": "xla"}
    )

  monkeypatch.setattr(jax.nn, "dot_product_attention", record)
  result = jax.jit(
    lambda inputs: attention_kernels.cudnn(inputs._replace(window=3), 0.0, 0.0)
  )(inputs)
  expected = compute(attention_forms.attend_all_pairs, inputs, 0.0, 0.0)
  np.testing.assert_allclose(result, expected, atol=1e-5)
  assert observed == [shapes]


@pytest.mark.parametrize("kernel", ["splash", "cudnn"])
def test_a_kernel_of_no_tokens_returns_none(kernel):
  queries = jnp.zeros((P, 2, HEADS, 0, D))
  inputs = make(2, 1, 4)._replace(queries=queries)
  assert getattr(attention_kernels, kernel)(inputs, 0.0, 0.0) is queries


@pytest.mark.parametrize(
  ("axes", "prompts", "local"),
  [
    # Two devices split 4 prompts, and two split 4 heads.
    ({"data": 2, "tensor": 2}, 4, (2, 2, 2)),
    # Four devices do not divide 6 prompts, so that each computes all of them.
    ({"data": 2, "fsdp": 2}, 6, (6, 4, 6)),
    ({"data": 2, "fsdp": 2}, 8, (2, 4, 2)),
  ],
)
def test_a_device_gets_its_prompts_and_heads(axes, prompts, local):
  mesh = sharding.make_mesh(**axes, devices=jax.devices()[:4])
  shapes = []

  def kernel(queries, keys, values, rows, columns, blocks):
    shapes.append((*queries.shape[:2], len(blocks)))
    assert queries.shape == keys.shape == values.shape
    assert len(rows) == len(columns) == len(blocks)
    return queries + keys + values + (rows + columns + blocks)[:, None, None]

  x = np.arange(prompts * 4 * 2.0).reshape(prompts, 4, 2)
  ids = np.arange(prompts)
  arrays = jax.device_put(
    (x, 2 * x, 3 * x, ids, ids, ids), jax.NamedSharding(mesh, jax.P())
  )
  result = jax.jit(attention_kernels._shard_kernel(kernel))(*arrays)
  assert shapes == [local]
  np.testing.assert_array_equal(result, 6 * x + 3 * ids[:, None, None])


def test_without_a_mesh_a_kernel_runs_as_it_is():
  sharded = attention_kernels._shard_kernel(lambda queries, *rest: rest)
  assert sharded(jnp.zeros(2), 1, 2) == (1, 2)
