"""The decoder against a plain numpy one, and its trunk against plain rows."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.small_decoders import BASE, VARIANTS, generic

from models import decoding, forward_pass, layers, policy, transformer
from models.config import ModelConfig
from models.rope import RopeScaling
from rl import types

CONFIGS = {
  "multi_head": BASE,
  "grouped": dataclasses.replace(BASE, heads=4, kv_heads=2),
  "multi_query_qk_norm": dataclasses.replace(BASE, kv_heads=1, qk_norm="head"),
  "bias_tied_remat": dataclasses.replace(
    BASE, attention_bias=True, tied_embeddings=True, remat="full"
  ),
  "value_head": dataclasses.replace(BASE, value_head=True, rope_theta=100.0),
}
P, S, L, T = 3, 2, 5, 4
PROMPT_LENGTHS = np.array([5, 3, 1])
LENGTHS = np.array([[4, 2], [1, 4], [3, 3]])


def batch(prompt_room: int = L) -> types.Tokens:
  generator = np.random.default_rng(1)
  prompts = np.zeros((P, prompt_room), np.int32)
  prompt_mask = np.arange(prompt_room) >= prompt_room - PROMPT_LENGTHS[:, None]
  prompts[prompt_mask] = generator.integers(0, 11, PROMPT_LENGTHS.sum())
  completions = generator.integers(0, 11, (P, S, T)).astype(np.int32)
  mask = np.arange(T) < LENGTHS[..., None]
  return types.Tokens(
    *map(jnp.asarray, (prompts, prompt_mask, completions, LENGTHS, mask))
  )


@functools.partial(jax.jit, static_argnums=0)
def completion_logits(config, params, tokens):
  scored = forward_pass.score(config, params, tokens)
  return scored.heads["logits"](scored.hidden)


@functools.partial(jax.jit, static_argnums=0)
def plain_logits(config, params, tokens, mask):
  return transformer.logits(config, params, tokens, mask)


def joined(tokens: types.Tokens) -> tuple[np.ndarray, np.ndarray]:
  """Every sample as a row of its own: `[P S, L + T]` ids and mask."""
  widen = lambda x: np.repeat(np.asarray(x), S, axis=0)  # noqa: E731
  completions = np.asarray(tokens.completions).reshape(P * S, T)
  real = np.asarray(tokens.mask).reshape(P * S, T)
  ids = np.concatenate([widen(tokens.prompts), completions], 1)
  return ids, np.concatenate([widen(tokens.prompt_mask), real], 1)


def numpy_logits(config: ModelConfig, params: dict, ids: np.ndarray):
  """One unpadded row in float64, head by head and query by query."""
  p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

  def norm(x, scale):
    square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(square + config.norm_eps) * scale

  def turn(x, position):
    half = config.head_dim // 2
    pairs = x[:half] + 1j * x[half:]
    angles = position * config.rope_theta ** (-np.arange(half) / half)
    turned = pairs * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag])

  x = p["embed"]["table"][ids]
  for n in range(config.layers):
    layer = jax.tree.map(lambda stacked, n=n: stacked[n], p["layers"])
    weights = layer["attention"]
    normed = norm(x, layer["attention_norm"]["scale"])
    built = {}
    for name in ("query", "key", "value"):
      built[name] = np.einsum("nd,dhk->nhk", normed, weights[name]["kernel"])
      if config.attention_bias:
        built[name] += weights[name]["bias"]
      if config.qk_norm == "head" and name != "value":
        built[name] = norm(built[name], weights[f"{name}_norm"]["scale"])
    mixed = np.zeros((len(ids), config.heads, config.head_dim))
    for h in range(config.heads):
      g = h // (config.heads // config.kv_heads)
      for i in range(len(ids)):
        query = turn(built["query"][i, h], i)
        keys = [turn(built["key"][j, g], j) for j in range(i + 1)]
        exponent = np.array([query @ key for key in keys])
        exponent = np.exp(exponent / np.sqrt(config.head_dim))
        mixed[i, h] = exponent @ built["value"][: i + 1, g] / exponent.sum()
    x = x + np.einsum("nhk,hkd->nd", mixed, weights["output"]["kernel"])
    normed = norm(x, layer["mlp_norm"]["scale"])
    gate = normed @ layer["mlp"]["gate"]["kernel"]
    up = normed @ layer["mlp"]["up"]["kernel"]
    x = x + (gate / (1 + np.exp(-gate)) * up) @ layer["mlp"]["down"]["kernel"]
  x = norm(x, p["final_norm"]["scale"])
  if config.tied_embeddings:
    return x @ p["embed"]["table"].T
  return x @ p["unembed"]["kernel"]


@pytest.fixture(scope="module", params=CONFIGS)
def model(request):
  config = CONFIGS[request.param]
  return config, generic(config)


@pytest.fixture(scope="module", params=CONFIGS | VARIANTS)
def any_model(request):
  config = (CONFIGS | VARIANTS)[request.param]
  return config, generic(config)


def test_logits_equal_a_numpy_decoder(model):
  config, params = model
  ids, mask = joined(batch())
  logits = plain_logits(config, params, ids, mask)
  for row, real, result in zip(ids, mask, np.asarray(logits), strict=True):
    expected = numpy_logits(config, params, row[real])
    np.testing.assert_allclose(result[real], expected, atol=1e-5, rtol=1e-5)


def test_score_equals_one_plain_row_per_sample(any_model):
  config, params = any_model
  tokens = batch()
  shared = jax.nn.log_softmax(completion_logits(config, params, tokens))
  rows = plain_logits(config, params, *joined(tokens))
  reference = jax.nn.log_softmax(rows)[:, L - 1 : -1].reshape(shared.shape)
  real = np.asarray(tokens.mask)
  np.testing.assert_allclose(shared[real], reference[real], atol=1e-5)


def test_decoding_token_by_token_equals_score(any_model):
  config, params = any_model
  tokens = batch()
  full = completion_logits(config, params, tokens)
  bound = policy.bind(config)
  prefill = jax.jit(bound.prefill, static_argnums=(3, 4))
  served, decode = bound.serve(params), jax.jit(bound.decode)
  logits, cache = prefill(params, tokens.prompts, tokens.prompt_mask, S, T)
  for s in range(S):
    np.testing.assert_allclose(logits, full[:, s, 0], atol=1e-5)
  for t in range(T - 1):
    logits, cache = decode(served, tokens.completions[..., t], t, cache)
    read = t < LENGTHS  # token t is real, so its successor is predicted
    np.testing.assert_allclose(logits[read], full[:, :, t + 1][read], atol=1e-5)


@pytest.mark.parametrize("unroll", [0, 1])
def test_a_prompt_is_cached_once_for_all_samples(unroll):
  tokens = batch()
  config = dataclasses.replace(BASE, unroll=1 - unroll, decode_unroll=unroll)
  prefill = functools.partial(decoding.prefill, config)
  shapes = jax.eval_shape(
    lambda params: prefill(params, tokens.prompts, tokens.prompt_mask, 64, T),
    generic(BASE),
  )[1]
  layers = config.layers
  pairs, stack = (
    ([shapes.prompts], (layers,)) if unroll else (shapes.prompts, ())
  )
  assert len(pairs) == (1 if unroll else layers)
  for keys, values in pairs:
    assert keys.shape == (*stack, P, BASE.kv_heads, BASE.head_dim, L)
    assert values.shape == (*stack, P, BASE.kv_heads, L, BASE.head_dim)


def test_left_padding_changes_nothing():
  params = generic(BASE)
  snug, loose = batch(), batch(L + 3)
  np.testing.assert_allclose(
    completion_logits(BASE, params, snug),
    completion_logits(BASE, params, loose),
    atol=1e-5,
  )


def test_prompts_of_their_own_equal_a_shared_prompt():
  params = generic(BASE)
  tokens = batch()
  repeat = lambda x: jnp.repeat(x[:, None], S, axis=1)  # noqa: E731
  view = tokens.replace(
    prompts=repeat(tokens.prompts), prompt_mask=repeat(tokens.prompt_mask)
  )
  np.testing.assert_allclose(
    completion_logits(BASE, params, tokens),
    completion_logits(BASE, params, view),
    atol=1e-5,
  )


def test_ids_of_padding_change_nothing():
  params = generic(BASE)
  tokens = batch()
  other = tokens.replace(
    prompts=jnp.where(tokens.prompt_mask, tokens.prompts, 7),
    completions=jnp.where(tokens.mask, tokens.completions, 9),
  )
  one = completion_logits(BASE, params, tokens)
  two = completion_logits(BASE, params, other)
  np.testing.assert_array_equal(one, two)


def test_padding_has_exactly_zero_gradient():
  # Ids 9 and 10 stand on padding only, so their embeddings must get none.
  params = generic(BASE)
  tokens = batch()
  tokens = tokens.replace(
    prompts=jnp.where(tokens.prompt_mask, tokens.prompts % 9, 9),
    completions=jnp.where(tokens.mask, tokens.completions % 9, 10),
  )

  @jax.jit
  @jax.grad
  def gradient(params):
    scored = forward_pass.score(BASE, params, tokens)
    log_probs = jax.nn.log_softmax(scored.heads["logits"](scored.hidden))
    chosen = jnp.take_along_axis(log_probs, tokens.completions[..., None], -1)
    return jnp.where(tokens.mask, chosen[..., 0], 0.0).sum()

  table = np.asarray(gradient(params)["embed"]["table"])
  # A completion's last token is read by nobody who is scored.
  read = np.arange(T) < LENGTHS[..., None] - 1
  prompt_ids = np.asarray(tokens.prompts)[np.asarray(tokens.prompt_mask)]
  observed = {*prompt_ids, *np.asarray(tokens.completions)[read]}
  assert {i for i in range(11) if (table[i] != 0).any()} == observed


def test_an_empty_prompt_is_finite_forward_and_backward():
  config = CONFIGS["bias_tied_remat"]
  params = generic(config)
  tokens = batch()
  tokens = tokens.replace(prompt_mask=tokens.prompt_mask.at[1].set(False))

  def total(params):
    scored = forward_pass.score(config, params, tokens)
    return jnp.sum(scored.heads["logits"](scored.hidden) ** 2)

  value, gradient = jax.jit(jax.value_and_grad(total))(params)
  assert np.isfinite(value)
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))


def test_one_token_completions_read_the_prompt_alone():
  params = generic(BASE)
  tokens = batch()
  short = tokens.replace(
    completions=tokens.completions[..., :1], lengths=jnp.ones((P, S), int)
  )
  result = completion_logits(BASE, params, short)
  full = completion_logits(BASE, params, tokens)
  np.testing.assert_allclose(result, full[:, :, :1], atol=1e-5)


def test_positions_are_counted_from_the_first_real_token():
  mask = np.array([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0]], bool)
  np.testing.assert_array_equal(
    transformer.token_positions(mask),
    [[0, 0, 0, 1], [0, 1, 2, 3], [0, 0, 1, 1]],
  )


def test_each_kind_of_layer_has_its_own_angles_and_window():
  """Channel pairs turn by 1 and 1/10, or by 1 and 1/2 in local layers."""
  config = dataclasses.replace(
    BASE,
    layers=3,
    layer_kinds=("local", "nope", "global"),
    window=3,
    rope_theta=100.0,
    local_rope_theta=4.0,
    rope_scaling=RopeScaling("linear", 2.0, attention_factor=1.5),
  )
  tables = transformer.position_tables(config, np.array([[0, 2]]), 3)
  assert tables.kinds == ("local", "nope", "global")
  angles = np.array([[0, 0], [2, 1]])  # of local layers, which are not scaled
  np.testing.assert_allclose(tables.cos[0, 0, 0], np.cos(angles), atol=1e-6)
  np.testing.assert_allclose(tables.sin[0, 0, 0], np.sin(angles), atol=1e-6)
  np.testing.assert_array_equal(tables.cos[1], np.ones((1, 1, 2, 2)))
  np.testing.assert_array_equal(tables.sin[1], np.zeros((1, 1, 2, 2)))
  angles = np.array([[0, 0], [1, 0.1]])
  for table, function in ((tables.cos, np.cos), (tables.sin, np.sin)):
    np.testing.assert_allclose(
      table[2, 0, 0], 1.5 * function(angles), atol=1e-6
    )
  # The other windows are longer than any text, and fit into 32 bits.
  assert tables.windows[0] == 3
  for window in tables.windows[1:]:
    assert 10**7 < window < 2**31
  chosen = tables.select(2)
  assert chosen.window == tables.windows[2]
  np.testing.assert_array_equal(chosen.cos, tables.cos[2])
  np.testing.assert_array_equal(chosen.sin, tables.sin[2])


def test_the_window_of_a_single_kind_is_a_python_int():
  tables = transformer.PositionTables(("local",), None, None, (3,))
  assert type(tables.select(jnp.zeros((), int)).window) is int
  assert tables.select(jnp.zeros((), int)).window == 3
  two = transformer.PositionTables(("local", "global"), None, None, (3, 9))
  assert [two.select(i).window for i in range(2)] == [3, 9]
  assert int(two.select(jnp.ones((), int)).window) == 9
  assert transformer.PositionTables(("global",), None, None, None).select(
    0
  ) == (None, None, None)


def test_learned_positions_are_those_of_inputs():
  """The last token of a text is only predicted."""
  config = dataclasses.replace(BASE, positions="learned", max_positions=4)
  positions = np.zeros((1, 1), int)
  assert transformer.position_tables(config, positions, 5).cos is None
  assert transformer.position_tables(config, positions, 4, 4).windows is None
  for arguments in ((6,), (5, 5)):
    with pytest.raises(ValueError, match=r"5 are inputs .* only 4 learned"):
      transformer.position_tables(config, positions, *arguments)


@pytest.mark.parametrize("scale", [1.0, 2.0, 3.0])
def test_embeddings_are_scaled_before_positions_are_added(scale):
  config = dataclasses.replace(
    BASE, positions="learned", max_positions=4, embedding_scale=scale
  )
  table, places = np.array([[1.0], [2.0]]), np.array([[10.0], [20.0]])
  params = {"embed": {"table": table}, "positions": {"table": places}}
  tokens, mask = np.array([1, 0, 1]), np.array([True, True, False])
  x = transformer.embed(
    config, jax.tree.map(jnp.asarray, params), tokens, mask, np.array([0, 1, 1])
  )
  np.testing.assert_array_equal(x[:, 0], [2 * scale + 10, scale + 20, 0])


def test_a_cap_on_logits_is_a_hyperbolic_tangent():
  config = dataclasses.replace(BASE, logit_softcap=3.0)
  kernel = np.array([[1.0, -2.0, 10.0]], np.float32)
  params = {"unembed": {"kernel": jnp.asarray(kernel)}}
  result = transformer.unembed(config, params, jnp.ones((1, 1)))
  np.testing.assert_allclose(result, 3 * np.tanh(kernel / 3), rtol=1e-5)


def test_initial_kernels_have_the_documented_deviation():
  config = dataclasses.replace(BASE, width=64, heads=8, mlp_width=128)
  params = transformer.init(config, jax.random.key(0))
  attention = params["layers"]["attention"]
  for kernel, deviation in (
    (params["embed"]["table"], 1 / 8),
    (attention["query"]["kernel"], 1 / 8),
    (attention["output"]["kernel"], 1 / np.sqrt(32 * 2 * config.layers)),
    (params["layers"]["mlp"]["gate"]["kernel"], 1 / 8),
  ):
    # Four standard errors of the standard deviation of n normal numbers.
    error = 4 * deviation / np.sqrt(2 * kernel.size)
    assert np.std(kernel) == pytest.approx(deviation, abs=error)
  first, second = attention["query"]["kernel"]
  assert (first != second).all()


def test_the_value_head_is_linear_in_hidden_states():
  config = CONFIGS["value_head"]
  params = generic(config)
  hidden = np.random.default_rng(2).normal(size=(6, config.width))
  value = transformer.heads(config, params)["value"](jnp.asarray(hidden))
  expected = hidden @ params["value"]["kernel"] + params["value"]["bias"]
  np.testing.assert_allclose(value, expected, atol=1e-5)
  assert "value" not in transformer.heads(BASE, generic(BASE))


def test_further_heads_are_linear_and_start_near_nothing():
  config = VARIANTS["learned_layer_norm"]
  params = generic(config)
  hidden = jnp.asarray(np.random.default_rng(2).normal(size=(6, config.width)))
  result = transformer.heads(config, params)["steps"](hidden)
  head = params["heads"]["steps"]
  expected = hidden @ head["kernel"] + head["bias"]
  np.testing.assert_allclose(result, expected, atol=1e-5)
  fresh = transformer.init_heads(config, jax.random.key(0))
  small = transformer.heads(config, params | fresh)["steps"](hidden)
  assert np.abs(small).max() < 1


def test_bfloat16_compute_gives_float32_logits_near_the_exact_ones():
  config = dataclasses.replace(BASE, dtype="bfloat16")
  params = generic(BASE)
  tokens = batch()
  rough = completion_logits(config, params, tokens)
  exact = completion_logits(BASE, params, tokens)
  assert rough.dtype == jnp.float32
  np.testing.assert_allclose(rough, exact, atol=0.1)  # 8 bits of mantissa


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"kv_heads": 3, "heads": 8}, "kv_heads = 3 must divide heads = 8"),
    (
      {"head_dim": 5},
      "head_dim . rope_fraction = 5 . 1.0 rotates 5 channels.*even",
    ),
    ({"rope_fraction": 0.75}, "rotates 3 channels.*must be even"),
    ({"layer_kinds": ("local",)}, "window = 0, but there are local layers"),
    ({"layer_kinds": ("glob",)}, "unknown layer kind 'glob'; did you mean"),
    ({"positions": "learned"}, "max_positions = 0 leaves no learned"),
    ({"experts": 2}, "experts_per_token = 0 must be .* most experts = 2"),
    ({"extra_heads": (("value", 2),)}, "extra head 'value' exists already"),
    (
      {"rope_scaling": RopeScaling("longrope", original=8)},
      "short_factors has 0 numbers; it must have 2",
    ),
    ({"dtype": "bfloat"}, "unknown dtype 'bfloat'; did you mean 'bfloat16'"),
    ({"remat": "all"}, "unknown remat 'all'.*none, full"),
    ({"layers": 0}, "layers = 0 must be a positive integer"),
    ({"norm_eps": 0.0}, "norm_eps = 0.0 must be positive"),
  ],
)
def test_an_impossible_shape_is_refused(change, message):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(BASE, **change)


@pytest.mark.parametrize(
  ("equation", "x", "kernel"),
  [
    ("...d,df->...f", (2, 3, 4), (4, 5)),
    ("...nd,dhk->...nhk", (2, 3, 4), (4, 2, 5)),
    ("...hnk,hkd->...nd", (2, 5, 3, 4), (5, 4, 6)),
    ("nd,de->ne", (3, 4), (4, 5)),
  ],
)
def test_the_product_with_a_kernel_has_the_gradients_of_an_einsum(
  equation, x, kernel
):
  rng = np.random.default_rng(0)
  factors = [jnp.asarray(rng.normal(size=shape)) for shape in (x, kernel)]
  expected, back = jax.vjp(functools.partial(jnp.einsum, equation), *factors)
  result, own_back = jax.vjp(layers.einsum(equation), *factors)
  np.testing.assert_array_equal(result, expected)
  g = jnp.asarray(rng.normal(size=expected.shape))
  for one, other in zip(own_back(g), back(g), strict=True):
    assert one.dtype == other.dtype
    np.testing.assert_allclose(one, other, atol=1e-5)
