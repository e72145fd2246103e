"""Every form of attention gives the numbers of the plain one."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from experiments.configs import defaults
from experiments.training import build, decoder
from experiments.training_run import validate
from models import (
  attention,
  attention_forms,
  attention_kernels,
  forward_pass,
  sharding,
  transformer,
)
from models.attention import AttentionInputs, KeySet
from models.config import ModelConfig
from rl import types

P, S, HEADS, KV_HEADS, HEAD_DIM = 2, 2, 4, 2, 8
PADDING = np.array([0, 3])  # of each trunk, on the left
BASE = ModelConfig(
  vocab_size=11,
  width=8,
  layers=2,
  heads=2,
  kv_heads=1,
  head_dim=8,
  mlp_width=12,
)


def stream(N: int, L: int = 0, window=None, S: int = S) -> AttentionInputs:
  """Random heads; without L it is a trunk."""
  generator = np.random.default_rng(0)

  def normal(*shape):
    return jnp.asarray(generator.normal(size=shape), jnp.float32)

  def pair(*shape):
    return normal(*shape), normal(*shape)

  return AttentionInputs(
    normal(P, S if L else 1, HEADS, N, HEAD_DIM),
    pair(P, S if L else 1, KV_HEADS, N, HEAD_DIM),
    pair(P, KV_HEADS, L, HEAD_DIM) if L else None,
    jnp.arange(L or N) >= PADDING[:, None],
    window,
  )


# Lengths are no multiple of a block (64, or 128 of splash). Each is a stream,
# the scores' scale and their softcap.
CASES = {
  "trunk": (stream(70), 0.0, 0.0),
  "branches": (stream(130, L=5), 0.0, 0.0),
  "short branches with window and softcap": (stream(7, 20, 9), 0.3, 2.0),
  "trunk with window": (stream(140, window=9), 0.3, 0.0),
  "window that ends before the trunk": (stream(130, 5, 20), 0.0, 0.0),
  "window of an array": (stream(70, 5, jnp.asarray(9)), 0.0, 0.0),
}
FORMS = {
  "plain": attention_forms.attend_all_pairs,
  "blocked": attention_forms.attend_in_blocks,
  "splash": functools.partial(attention_kernels.splash, interpret=True),
  "cudnn": functools.partial(attention_kernels.cudnn, implementation="xla"),
}


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def outcome(form, arrays, scale, softcap, window, cotangent):
  """The heads' output, and the gradient of all that they read."""
  *arrays, real = arrays

  def attend(*arrays):
    return FORMS[form](AttentionInputs(*arrays, real, window), scale, softcap)

  out, back = jax.vjp(attend, *arrays)
  return out, back(cotangent)


def result(form, case, cotangent=None):
  inputs, scale, softcap = case
  if cotangent is None:
    shape = inputs.queries.shape
    cotangent = np.random.default_rng(1).normal(size=shape)
  cotangent = jnp.asarray(cotangent, inputs.queries.dtype)
  arrays, window = inputs[:4], inputs.window
  if not isinstance(window, int):
    return outcome(form, arrays, scale, softcap, window, cotangent)
  # A number stays one, as where all layers of a scan have the same window.
  fixed = functools.partial(outcome.__wrapped__, form)
  return jax.jit(
    lambda arrays, cotangent: fixed(arrays, scale, softcap, window, cotangent)
  )(arrays, cotangent)


def leaves(tree):
  return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def served(form, case):
  """Cases that the interpreter of splash finishes and that cuDNN supports."""
  if form == "splash":
    return case in list(CASES)[:3]
  return form != "cudnn" or not CASES[case][2]


@pytest.fixture(scope="module")
def reference():
  return {name: leaves(result("plain", case)) for name, case in CASES.items()}


@pytest.mark.parametrize(
  ("form", "case"),
  [(f, c) for f in FORMS for c in CASES if f != "plain" and served(f, c)],
)
def test_every_form_is_the_plain_one(form, case, reference):
  others = leaves(result(form, CASES[case]))
  assert len(others) == len(reference[case])
  for one, other in zip(reference[case], others, strict=True):
    np.testing.assert_allclose(other, one, atol=1e-5)


def test_blocks_are_exact_in_float64():
  with jax.enable_x64(True):
    inputs, *rest = CASES["branches"]
    wide = jax.tree.map(
      lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, inputs
    )
    one, other = (
      leaves(result(form, (wide, *rest))) for form in ("plain", "blocked")
    )
  for a, b in zip(one, other, strict=True):
    assert a.dtype == np.float64
    np.testing.assert_allclose(b, a, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_padding_reads_zero_and_passes_no_gradient(form):
  case = CASES["trunk"]
  padded = ~np.asarray(case[0].prompt_mask)[:, None, None, :, None]
  cotangent = np.broadcast_to(padded, case[0].queries.shape)
  out, gradient = result(form, case, cotangent)
  assert (np.asarray(out)[cotangent] == 0).all()
  assert (np.asarray(out)[~cotangent] != 0).any()
  for leaf in leaves(gradient):
    np.testing.assert_array_equal(leaf, 0)


def test_splash_leaves_out_blocks_of_queries_that_nobody_reads():
  """Blocks of 128 queries that are NaN: nothing is computed from them."""
  S, N, L = 3, 300, 5
  inputs = stream(N, L, S=S)
  lengths = np.array([[N, 0, 40], [1, 130, 129]])
  is_read = (np.arange(N) < lengths[..., None])[:, :, None, :, None]
  in_block = np.arange(N) // 128 <= (lengths[..., None] - 1) // 128
  in_block = in_block[:, :, None, :, None]
  cotangent = np.random.default_rng(1).normal(size=inputs.queries.shape)
  cotangent = np.float32(np.where(is_read, cotangent, 0))

  @functools.partial(jax.jit, static_argnums=0)
  def read(form, inputs):
    *arrays, real = inputs[:4]

    def attend(*arrays):
      return FORMS[form](
        AttentionInputs(*arrays, real, lengths=inputs.lengths, window=None),
        *(0.0, 0.0),
      )

    out, back = jax.vjp(attend, *arrays)
    return jnp.where(is_read, out, 0), back(cotangent)

  def with_padding(value):
    queries = jnp.where(in_block, inputs.queries, value)
    return inputs._replace(queries=queries)

  expected = leaves(read("plain", with_padding(0.0)))
  poisoned = with_padding(jnp.nan)._replace(lengths=jnp.asarray(lengths))
  for one, other in zip(
    expected, leaves(read("splash", poisoned)), strict=True
  ):
    np.testing.assert_allclose(other, one, atol=1e-5)


def split(inputs: AttentionInputs) -> AttentionInputs:
  """Its tokens over two devices, as its prompts are, and its heads."""
  mesh = sharding.make_mesh(data=2, tensor=2, context=2)
  rows = sharding.batch_sharding(mesh)
  return jax.tree.map(
    lambda x: jax.device_put(x, rows) if jnp.ndim(x) > 1 else x, inputs
  )


@pytest.mark.parametrize("case", CASES)
def test_tokens_on_several_devices_read_what_one_would(case, reference):
  """In several blocks of each part, of which the last is not full."""
  inputs, *rest = CASES[case]
  others = leaves(result("blocked", (split(inputs), *rest)))
  for one, other in zip(reference[case], others, strict=True):
    np.testing.assert_allclose(other, one, atol=1e-5)


def test_no_device_has_the_scores_of_all_its_tokens_at_once():
  inputs = split(stream(1024, L=5))
  arrays, window = inputs[:4], inputs.window
  cotangent = jnp.ones_like(inputs.queries)
  args = ("blocked", arrays, 0.0, 0.0, window, cotangent)
  memory = outcome.lower(*args).compile().memory_analysis()
  scores = 4 * P * S * HEADS * 1024 * 1024 / 8  # bytes, of one device's
  assert memory.temp_size_in_bytes < scores


def flops(form, inputs):
  arrays, window = inputs[:4], inputs.window
  cotangent = jnp.ones_like(inputs.queries)
  lowered = outcome.lower(form, arrays, 0.0, 0.0, window, cotangent)
  return lowered.cost_analysis()["flops"]


def test_blocks_leave_out_three_eighths_of_a_long_trunk():
  inputs = stream(512)
  ratio = flops("blocked", inputs) / flops("plain", inputs)
  assert 0.6 < ratio < 0.68  # 5/8, and what does not depend on the pairs


def lowered(inputs: AttentionInputs, attend, platform: str) -> str:
  """Forward and backward, for a machine that is not here."""

  def loss(arrays, real):
    out = attend(AttentionInputs(*arrays, real, inputs.window), 0.0, 0.0)
    return jnp.sum(out.astype(jnp.float32) ** 2)

  traced = jax.jit(jax.grad(loss)).trace(tuple(inputs[:3]), inputs.prompt_mask)
  return traced.lower(lowering_platforms=(platform,)).as_text()


def rough(inputs: AttentionInputs) -> AttentionInputs:
  return jax.tree.map(
    lambda x: x.astype(jnp.bfloat16) if x.dtype == jnp.float32 else x, inputs
  )


def test_splash_reads_one_trunk_for_all_branches_on_a_mesh_of_tpus():
  mesh = sharding.make_mesh(2, 1, 2, devices=jax.devices()[:4])
  inputs = rough(stream(128, L=128, S=6))
  place = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
  text = lowered(jax.device_put(inputs, place), attention_kernels.splash, "tpu")
  assert text.count("@tpu_custom_call") == 3  # forward, and two for backward
  assert "sdy.manual_computation" in text
  rows = 128 + 6 * 128  # a multiple of 128, though not of 512
  columns = -(-rows // 512) * 512
  heads = KV_HEADS // mesh.shape["tensor"]
  assert f"tensor<1x{heads}x{columns}x{HEAD_DIM}xbf16>" in text


def test_splash_on_a_mesh_is_splash():
  mesh = sharding.make_mesh(2, 1, 2, devices=jax.devices()[:4])
  inputs, *rest = CASES["short branches with window and softcap"]
  place = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
  spread = AttentionInputs(*jax.device_put(inputs[:4], place), inputs.window)
  one, other = (
    leaves(result(form, (where, *rest)))
    for form, where in (("plain", inputs), ("splash", spread))
  )
  for a, b in zip(one, other, strict=True):
    np.testing.assert_allclose(b, a, atol=1e-5)


def test_cudnn_is_called_forward_and_backward(monkeypatch):
  # No cuDNN is here, so JAX is told a version; nothing of it is run.
  from jax._src.cudnn import fused_attention_stablehlo as fused

  monkeypatch.setattr(fused, "check_cudnn_version", lambda: 91100)
  text = lowered(rough(stream(127, L=64)), attention_kernels.cudnn, "cuda")
  assert text.count("cudnn$fmhaScaleBias") >= 2
  assert "cudnn$fmhaScaleBiasSoftmaxBackward" in text


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"attention": "flash"}, "unknown attention 'flash'"),
    ({"attention": "splsh"}, "did you mean 'splash'"),
    (
      {"attention": "splash", "layer_kinds": ("local", "global"), "window": 3},
      r"'splash' needs one window in all layers.*; 'blocked' can compute every",
    ),
    ({"attention": "cudnn"}, "'cudnn' computes in bfloat16, not.*'blocked'"),
    (
      {"attention": "cudnn", "dtype": "bfloat16", "attention_softcap": 2.0},
      r"'cudnn' cannot compute attention_softcap = 2\.0; 'blocked' can",
    ),
    (
      {"attention": "cudnn", "dtype": "bfloat16", "head_dim": 4},
      "'cudnn' needs head_dim in 8, 16, .. 128, not 4",
    ),
    ({"remat": "dot"}, "unknown remat 'dot'; did you mean 'dots'"),
    ({"unroll": -1}, "unroll = -1 must be an integer, 0 or more"),
  ],
)
def test_what_a_form_cannot_do_is_refused(change, message):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(BASE, **change)


def test_a_config_takes_what_suits_the_platform(monkeypatch):
  config = defaults.rl()
  task = build.make_task(config)
  built = functools.partial(decoder.make, config, task)
  mixed = {"layer_kinds": ("local", "global"), "window": 3}
  for platform, form, unroll in (
    ("cpu", "blocked", 0),
    ("gpu", "blocked", 1),
    ("tpu", "splash", 1),
  ):
    model = built(platform)
    assert (model.attention, model.unroll) == (form, unroll)
    assert model.decode_unroll == (0 if platform == "gpu" else None)
  # A machine that has cuDNN, for decoders that it can compute.
  monkeypatch.setattr(decoder, "_has_cudnn", lambda: True)
  assert built("gpu").attention == "blocked"
  config.model.dtype = "bfloat16"
  assert built("gpu").attention == "cudnn"
  config.model.dtype = "float32"
  monkeypatch.setattr(decoder, "_MAX_UNROLLED_PARAMS", 10)
  assert built("gpu").decode_unroll is None
  monkeypatch.setattr(decoder, "_MAX_UNROLLED_CPU_PARAMS", 10)
  assert built("cpu").unroll == 1
  monkeypatch.undo()
  config.model.remat = "full"
  assert built("cpu").unroll == 1
  config.model.update(mixed)
  assert built("tpu").attention == "blocked"
  config.model.attention, config.model.unroll = "plain", 2
  for platform in ("cpu", "tpu"):
    model = built(platform)
    assert (model.attention, model.unroll) == ("plain", 2)
  config.model.attention = "splash"
  with pytest.raises(ValueError, match="'splash' runs on tpu, not on cpu"):
    validate.check_attention(config, "cpu")


def tokens() -> types.Tokens:
  generator = np.random.default_rng(1)
  L, T = 5, 66
  lengths = np.array([[T, 2], [40, T]])
  return types.Tokens(
    *map(
      jnp.asarray,
      (
        generator.integers(0, 11, (P, L)),
        np.arange(L) >= PADDING[:, None],
        generator.integers(0, 11, (P, S, T)),
        lengths,
        np.arange(T) < lengths[..., None],
      ),
    )
  )


def likelihood(config: ModelConfig, params, inputs: types.Tokens):
  scored = forward_pass.score(config, params, inputs)
  log_probs = jax.nn.log_softmax(scored.heads["logits"](scored.hidden))
  chosen = jnp.take_along_axis(log_probs, inputs.completions[..., None], -1)
  return jnp.where(inputs.mask, chosen[..., 0], 0.0).sum()


def program(**changes):
  """The gradient of a likelihood, lowered; and its arguments."""
  config = dataclasses.replace(BASE, layers=3, **changes)
  gradient = jax.jit(jax.value_and_grad(functools.partial(likelihood, config)))
  params = transformer.init(config, jax.random.key(0))
  return gradient.lower(params, tokens()), (params, tokens())


def products(compiled) -> int:
  """Matrix products in a compiled program."""
  text = compiled.as_text()
  return text.count(" dot(") + text.count("__onednn$matmul")


@pytest.fixture(scope="module")
def unrolled():
  """Without a loop, all kept: lowered, compiled, what it gives."""
  lowered, arguments = program(unroll=0)
  compiled = lowered.compile()
  return lowered, compiled, compiled(*arguments)


@pytest.mark.parametrize(
  "changes",
  [
    {"remat": "dots", "unroll": 2},  # and one layer is left over
    {"remat": "full", "unroll": 0},
    {"remat": "attention", "unroll": 0, "attention": "blocked"},
  ],
  ids=str,
)
def test_no_way_to_compute_changes_the_gradient(changes, unrolled):
  _, remaining, (value, gradient) = unrolled
  lowered, arguments = program(**changes)
  compiled = lowered.compile()
  again, other = compiled(*arguments)
  np.testing.assert_allclose(again, value, rtol=1e-6)
  for a, b in zip(leaves(gradient), leaves(other), strict=True):
    np.testing.assert_allclose(b, a, atol=2e-5)
  if changes.get("unroll") == 0:  # what is computed again is not found again
    assert products(compiled) > products(remaining)


def test_without_a_loop_gradients_are_stacked_not_added_up(unrolled):
  lowered, *_ = unrolled
  looped, _ = program()
  text, loop = lowered.as_text(), looped.as_text()
  assert "stablehlo.while" in loop
  assert "stablehlo.while" not in text
  # The gradient of a slice of a stack would be padded to the 3 layers.
  sizes = re.findall(r"stablehlo\.pad.*-> tensor<(\d+)x", text)
  assert sizes
  assert "3" not in sizes


def equations(jaxpr):
  """All of them, also those inside loops and calls."""
  for equation in jaxpr.eqns:
    yield equation
    for inner in jax.tree.leaves(
      list(equation.params.values()),
      is_leaf=lambda x: hasattr(x, "jaxpr") or hasattr(x, "eqns"),
    ):
      inner = getattr(inner, "jaxpr", inner)
      if hasattr(inner, "eqns"):
        yield from equations(inner)


@pytest.mark.parametrize("attention", ["plain", "blocked"])
def test_bfloat16_multiplies_and_float32_adds_up(attention):
  config = dataclasses.replace(BASE, dtype="bfloat16", attention=attention)
  params = transformer.init(config, jax.random.key(0))
  assert {str(x.dtype) for x in jax.tree.leaves(params)} == {"float32"}
  loss = functools.partial(likelihood, config)
  gradient = jax.eval_shape(jax.grad(loss), params, tokens())
  assert {str(x.dtype) for x in jax.tree.leaves(gradient)} == {"float32"}
  observed = {}
  for equation in equations(jax.make_jaxpr(loss)(params, tokens()).jaxpr):
    dtypes = observed.setdefault(equation.primitive.name, [])
    dtypes.append([str(x.aval.dtype) for x in equation.invars])
    if equation.primitive.name == "dot_general":
      [out] = equation.outvars
      wide = out.aval.shape[-1] == config.vocab_size or out.aval.ndim > 5
      assert not wide or out.aval.dtype == jnp.float32  # logits, scores
  for name in ("exp", "log", "reduce_max", "rsqrt"):
    assert {d for dtypes in observed[name] for d in dtypes} == {"float32"}, name
  assert {d for ds in observed["dot_general"] for d in ds} == {"bfloat16"}


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("capacity", [4, 6, 24])
def test_a_block_of_the_mask_is_that_part_of_it(capacity, window):
  rows, trunk, columns, block = 24, 5, 32, 4
  mask = attention_kernels.CompletionsMask(
    rows, columns, capacity, trunk, window
  )
  full = np.zeros((rows, columns), bool)
  first = columns - rows  # of the tokens' own columns
  for row, column in np.ndindex(full.shape):
    t, separate = row % capacity, column - first
    if separate < 0:
      observed, distance = separate >= -trunk, t - separate
    else:
      observed, distance = (
        separate // capacity == row // capacity and separate <= row,
        row - separate,
      )
    full[row, column] = observed and (window is None or distance < window)
  for row in range(0, rows, block):
    for column in range(0, columns, block):
      part = slice(row, row + block), slice(column, column + block)
      np.testing.assert_array_equal(mask[part], full[part])


def test_keys_of_two_sets_share_one_softmax():
  """One set is shared by the completions; scores go beyond 300."""
  rng = np.random.default_rng(0)
  P, S, N, D = 3, 2, 2, 6
  queries = rng.normal(size=(P, S, HEADS, N, D)).astype(np.float32)
  shared = rng.normal(size=(2, P, KV_HEADS, 3, D)).astype(np.float32)
  separate = rng.normal(size=(2, P, S, KV_HEADS, 4, D)).astype(np.float32)
  sees_shared = rng.random((P, N, 3)) < 0.6
  sees_own = rng.random((P, S, N, 4)) < 0.6
  sees_shared[0, 0], sees_own[0, 0, 0] = False, False  # this query sees no key
  sets = [
    KeySet(shared[0].swapaxes(-1, -2), shared[1], sees_shared),
    KeySet(separate[0].swapaxes(-1, -2), separate[1], sees_own),
  ]

  @jax.jit
  def attend(queries):
    return [
      attention.attend(queries, sets, scale, softcap)
      for scale, softcap in ((100.0, 0.0), (0.0, 2.0))
    ]

  def written_out(score):
    out = np.zeros(queries.shape)
    for p, s, h, n in np.ndindex(queries.shape[:-1]):
      keys, values = (
        np.concatenate(
          [
            shared[i, p, h // 2][sees_shared[p, n]],
            separate[i, p, s, h // 2][sees_own[p, s, n]],
          ]
        ).astype(np.float64)
        for i in (0, 1)
      )
      if len(keys):
        scores = score(keys @ queries[p, s, h, n])
        weights = np.exp(scores - scores.max())
        out[p, s, h, n] = weights @ values / weights.sum()
    return out

  large, capped = attend(queries)
  assert (np.asarray(large)[0, 0, :, 0] == 0).all()
  np.testing.assert_allclose(large, written_out(lambda x: 100 * x), atol=2e-4)
  # Without a scale, it is 1 / sqrt(D).
  expected = written_out(lambda x: 2 * np.tanh(x / np.sqrt(D) / 2))
  np.testing.assert_allclose(capped, expected, atol=1e-5)


def test_the_only_key_of_a_query_has_weight_1_whatever_its_score():
  """Query 0 sees one key and query 1 none: no score has a gradient."""
  rng = np.random.default_rng(0)
  queries, keys, values = np.float32(rng.normal(size=(3, 1, 1, 1, 2, 2)))
  visible = np.array([[[True, False], [False, False]]])

  @jax.jit
  @jax.value_and_grad
  def attend(queries):
    sets = [KeySet(keys, values, visible)]
    return attention.attend(queries, sets, 1.0, 0.0).sum()

  out, gradient = attend(queries)
  np.testing.assert_allclose(out, values[0, 0, 0, 0].sum(), rtol=1e-6)
  np.testing.assert_allclose(gradient, np.zeros_like(queries), atol=1e-7)


def test_rotation_turns_pairs_by_their_angle():
  """Channels 0 and 2, and 1 and 3, are pairs; channel 4 stays."""
  x = np.array([[[3.0, 1.0, 4.0, 2.0, 7.0]]] * 2, np.float32)
  # A quarter turn of the first pair, and none or half a turn of the second.
  cos = np.array([[[0.0, 1.0]], [[0.0, -1.0]]], np.float32)
  sin = np.array([[[1.0, 0.0]], [[1.0, 0.0]]], np.float32)
  turned = jax.jit(attention.rotate)(x, cos, sin)
  expected = [[[-4, 1, 3, 2, 7]], [[-4, -1, 3, -2, 7]]]
  np.testing.assert_allclose(turned, expected, atol=1e-6)
