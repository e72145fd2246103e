"""Modules of a layer against their formulas, on a few numbers."""

import dataclasses
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.small_decoders import BASE

from models import layers

KEY = jax.random.key(0)


def apply(module, params, *args, method=None):
  """The module's result, compiled."""
  return jax.jit(
    lambda params, *args: module.apply({"params": params}, *args, method=method)
  )(params, *args)


def shapes(module, *args, method=None):
  """The shapes of a module's parameters."""
  variables = jax.eval_shape(
    lambda: module.init(KEY, *args, method=method)["params"]
  )
  return jax.tree.map(lambda leaf: leaf.shape, variables)


def test_activations_are_their_formulas():
  x = np.linspace(-3, 3, 13, dtype=np.float32)
  exact = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x]
  inner = [math.sqrt(2 / math.pi) * (v + 0.044715 * v**3) for v in x]
  approximate = [
    v * (1 + math.tanh(u)) / 2 for v, u in zip(x, inner, strict=True)
  ]
  sigmoid = [v / (1 + math.exp(-v)) for v in x]
  assert np.abs(np.subtract(exact, approximate)).max() > 1e-4
  expected = {"silu": sigmoid, "gelu": exact, "gelu_tanh": approximate}
  assert set(layers.ACTIVATIONS) == set(expected)
  result = jax.jit(
    lambda x: {name: act(x) for name, act in layers.ACTIVATIONS.items()}
  )(x)
  for name, values in expected.items():
    np.testing.assert_allclose(result[name], values, atol=1e-6)


def test_rms_norm_divides_by_the_root_of_the_mean_square_and_epsilon():
  """The mean square of (1, 7) is 25, and with 11 it is 36."""
  x = np.array([[1.0, 7.0], [2.0, 14.0]], np.float32)
  scale = np.array([3.0, 0.5], np.float32)
  config = dataclasses.replace(BASE, norm_eps=11.0)
  norm = layers.RMSNorm(config)
  result = apply(norm, {"scale": scale}, x)
  root = math.sqrt(111)  # of the mean square 100 of (2, 14)
  expected = [[3 / 6, 3.5 / 6], [6 / root, 7 / root]]
  np.testing.assert_allclose(result, expected, rtol=1e-6)
  # With an offset of 2, scales of 3 and 0.5 become 5 and 2.5.
  offset = dataclasses.replace(config, norm_offset=2.0)
  result = apply(layers.RMSNorm(offset), {"scale": scale}, x)
  expected = [[5 / 6, 17.5 / 6], [10 / root, 35 / root]]
  np.testing.assert_allclose(result, expected, rtol=1e-6)
  # Over two axes, the mean squares are 62.5 and 250.
  scales = np.array([[3.0, 0.5], [1.0, 2.0]], np.float32)
  both = np.stack([x, 2 * x])
  result = apply(layers.RMSNorm(config, axes=2), {"scale": scales}, both)
  expected = [scales * x / math.sqrt(73.5), scales * 2 * x / math.sqrt(261)]
  np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 0.25, 1.0])
def test_a_fresh_rms_norm_multiplies_by_1(offset):
  config = dataclasses.replace(BASE, norm_offset=offset)
  scale = layers.RMSNorm(config).init(KEY, jnp.ones((3, 4)))["params"]["scale"]
  np.testing.assert_array_equal(scale + offset, np.ones(4))


def test_layer_norm_is_its_formula():
  """(1, 5, 3) has the mean 3 and the variance 8/3; with 10/3 it is 6."""
  config = dataclasses.replace(BASE, norm="layer", norm_eps=10 / 3)
  norm = layers.make_norm(config)
  x = np.array([[1.0, 5.0, 3.0], [3.0, 3.0, 3.0]], np.float32)
  assert shapes(norm, x) == {"scale": (3,), "bias": (3,)}
  params = {
    "scale": np.array([2.0, 3.0, 4.0], np.float32),
    "bias": np.array([0.5, 1.0, 7.0], np.float32),
  }
  root = math.sqrt(6)
  expected = [[0.5 - 4 / root, 1 + 6 / root, 7], [0.5, 1, 7]]
  np.testing.assert_allclose(apply(norm, params, x), expected, rtol=1e-6)


def test_a_fresh_projection_has_the_documented_deviation_and_no_bias():
  """Of 64 and of 4 x 16 inputs, times the gain."""
  for module, gain in (
    (layers.Linear(BASE, "...d,df->...f", (64, 128)), 1.0),
    (layers.Linear(BASE, "...d,df->...f", (64, 128), gain=3.0), 3.0),
    (
      layers.Linear(BASE, "...hnk,hkd->...nd", (4, 16, 128), num_input_axes=2),
      1.0,
    ),
  ):
    x = jnp.ones((4, 2, 16) if module.num_input_axes == 2 else (2, 64))
    params = jax.jit(module.init)(KEY, x)["params"]
    assert set(params) == {"kernel"}
    deviation = gain / 8
    # Four standard errors of the deviation of 8,192 normal numbers.
    error = 4 * deviation / math.sqrt(2 * 64 * 128)
    assert np.std(params["kernel"]) == pytest.approx(deviation, abs=error)


def test_a_fresh_kernel_of_experts_has_the_deviation_of_its_inputs():
  """2 experts with 64 inputs and 32 outputs."""
  for module, deviation in (
    (layers.ExpertKernel(BASE, (2, 64, 32)), 1 / 8),
    (layers.ExpertKernel(BASE, (2, 64, 32), gain=0.5), 1 / 16),
  ):
    kernel = jax.jit(module.init)(KEY)["params"]["kernel"]
    error = 4 * deviation / math.sqrt(2 * kernel.size)
    assert np.std(kernel) == pytest.approx(deviation, abs=error)


def test_a_projection_adds_its_bias_and_its_adapter():
  """x W + b + x A B alpha / rank, with alpha / rank = 6 / 2."""
  config = dataclasses.replace(
    BASE, lora_rank=2, lora_alpha=6.0, lora_targets="output"
  )
  rng = np.random.default_rng(0)
  x, kernel, bias, a, b = (
    rng.normal(size=shape).astype(np.float32)
    for shape in ((5, 2, 3, 4), (2, 4, 6), (6,), (2, 4, 2), (2, 6))
  )

  class Parent(nn.Module):
    """Gives the projection its path."""

    def setup(self):
      equation, shape = "...hnk,hkd->...nd", (2, 4, 6)
      self.output = layers.Linear(
        config, equation, shape, num_input_axes=2, bias=True
      )
      self.other = layers.Linear(config, equation, shape, num_input_axes=2)

    def __call__(self, x):
      return self.output(x), self.other(x)

  params = {
    "output": {"kernel": kernel, "bias": bias, "lora_a": a, "lora_b": b},
    "other": {"kernel": kernel},  # the targets do not name it
  }
  result, other = apply(Parent(), params, x)
  expected = np.einsum("bhnk,hkd->bnd", x, kernel)
  np.testing.assert_allclose(other, expected, atol=1e-5)
  change = np.einsum("bhnk,hkr,rd->bnd", x, a, b) * 3
  np.testing.assert_allclose(result, expected + bias + change, atol=1e-4)


def test_an_mlp_with_and_without_gate():
  """One channel: down(silu(gate x) up x) and down(silu(up x))."""
  config = dataclasses.replace(BASE, width=1, mlp_width=1)
  x = np.array([[2.0]], np.float32)
  params = {
    name: {"kernel": np.array([[value]], np.float32)}
    for name, value in (("gate", 0.5), ("up", 3.0), ("down", 7.0))
  }
  sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
  result = apply(layers.MLP(config), params, x)
  np.testing.assert_allclose(result, [[7 * sigmoid(1) * 6]], rtol=1e-6)
  ungated = dataclasses.replace(config, gated_mlp=False)
  params.pop("gate")
  result = apply(layers.MLP(ungated), params, x)
  np.testing.assert_allclose(result, [[7 * 6 * sigmoid(6)]], rtol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_output_of_experts_is_their_weighted_sum(normalize):
  """Two of three experts for each of four tokens, computed one by one."""
  config = dataclasses.replace(
    BASE, experts=3, experts_per_token=2, normalize_experts=normalize
  )
  rng = np.random.default_rng(0)
  gate, up, down, x = (
    rng.normal(size=shape).astype(np.float32)
    for shape in ((3, 5, 6), (3, 5, 6), (3, 6, 5), (2, 2, 5))
  )
  # The tokens choose experts 2 and 0, 0 and 1, 2 and 1, and 2 and 0.
  logits = np.array(
    [[[1.0, 0.0, 2.0], [3.0, 2.5, 0.0]], [[0.0, 1.0, 1.5], [0.5, 0.0, 4.0]]],
    np.float32,
  )
  expected = np.zeros(x.shape)
  for i, j, chosen in (
    (0, 0, (2, 0)),
    (0, 1, (0, 1)),
    (1, 0, (2, 1)),
    (1, 1, (2, 0)),
  ):
    probs = np.exp(logits[i, j]) / np.exp(logits[i, j]).sum()
    for e in chosen:
      hidden = x[i, j] @ gate[e]
      hidden = hidden / (1 + np.exp(-hidden)) * (x[i, j] @ up[e])
      weight = probs[e] / (probs[list(chosen)].sum() if normalize else 1)
      expected[i, j] += weight * (hidden @ down[e])
  result = jax.jit(
    lambda *args: layers._apply_experts(config, args[:3], *args[3:])
  )(gate, up, down, x, logits)
  np.testing.assert_allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize(
  ("shape", "mixed"),
  [
    # Axis 1 is the tokens, as devices split it; one token has the samples.
    ((3, 2, 4, 8), (3, 4, 2, 8)),
    ((3, 4, 2, 8), (3, 2, 4, 8)),
    ((3, 4, 1, 8), (3, 4, 1, 8)),
    ((3, 4, 8), (3, 4, 8)),
  ],
)
def test_experts_have_tokens_on_axis_1(shape, mixed, monkeypatch):
  observed = []

  def mixture(self, x):
    observed.append(x.shape)
    return x

  monkeypatch.setattr(layers.Experts, "_mixture", mixture)
  x = np.arange(math.prod(shape)).reshape(shape)
  result = layers.Experts(BASE).apply({}, jnp.asarray(x))
  assert observed == [mixed]
  np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("qk_norm", ["none", "head", "all"])
def test_queries_and_keys_are_normed_and_clipped_then_turned(qk_norm):
  """3 tokens, two heads of queries and one of keys and values, 2 channels."""
  config = dataclasses.replace(
    BASE, width=4, kv_heads=1, head_dim=2, qk_norm=qk_norm, qkv_clip=0.7
  )
  module = layers.Attention(config)
  rng = np.random.default_rng(0)
  x = rng.normal(size=(1, 3, 4)).astype(np.float32)
  kernels = {
    name: rng.normal(size=(4, heads, 2)).astype(np.float32)
    for name, heads in (("query", 2), ("key", 1), ("value", 1))
  }
  params = {name: {"kernel": kernel} for name, kernel in kernels.items()}
  angles = np.array([0.0, 0.4, 1.1])
  cos, sin = (
    fn(angles)[None, None, :, None].astype(np.float32)
    for fn in (np.cos, np.sin)
  )
  expected = {
    name: np.einsum("bnd,dhk->bnhk", x, kernel)
    for name, kernel in kernels.items()
  }
  if qk_norm != "none":
    for name in ("query", "key"):
      heads = expected[name].shape[2]
      axes = -1 if qk_norm == "head" else (-2, -1)
      shape = (2,) if qk_norm == "head" else (heads, 2)
      scale = 3 * rng.normal(size=shape).astype(np.float32)
      params[f"{name}_norm"] = {"scale": scale}
      square = np.mean(expected[name] ** 2, axis=axes, keepdims=True)
      expected[name] *= scale / np.sqrt(square + config.norm_eps)
  assert np.abs(expected["query"]).max() > 0.7
  turned = {}
  for name, y in expected.items():
    y = np.clip(y, -0.7, 0.7).swapaxes(1, 2)
    if name != "value":
      pairs = (y[..., 0] + 1j * y[..., 1]) * np.exp(1j * angles)
      y = np.stack([pairs.real, pairs.imag], -1)
    turned[name] = y
  result = apply(
    module, params, x, layers.LayerPositions(cos, sin, None), method="project"
  )
  for y, name in zip(result, ("query", "key", "value"), strict=True):
    np.testing.assert_allclose(y, turned[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
  ("norm_place", "names"),
  [
    ("pre", {"attention_norm", "mlp_norm"}),
    ("post", {"attention_post_norm", "mlp_post_norm"}),
    (
      "both",
      {"attention_norm", "mlp_norm", "attention_post_norm", "mlp_post_norm"},
    ),
  ],
)
def test_norms_are_before_or_after_attention_and_mlp(norm_place, names):
  config = dataclasses.replace(BASE, norm_place=norm_place)
  positions = layers.LayerPositions(None, None, None)
  params = shapes(
    layers.Layer(config),
    *(jnp.zeros((1, 2, 8)), positions, jnp.ones((1, 2), bool)),
    method="forward_prompt",
  )
  assert {name for name in params if name.endswith("norm")} == names


def test_only_remat_of_attention_computes_it_again():
  function = lambda x: x  # noqa: E731
  for remat in ("none", "full", "attention"):
    config = dataclasses.replace(BASE, remat=remat)
    attend = layers.Attention(config)._rematerialized(function)
    assert (attend is function) == (remat != "attention")


def test_gains_of_residual_kernels_fall_with_the_number_of_layers():
  """One over the root of two kernels per layer."""
  for count, gain in ((2, 0.5), (8, 0.25)):
    config = dataclasses.replace(BASE, layers=count)
    assert layers.residual_gain(config) == pytest.approx(gain)


def test_a_token_is_written_to_its_entry_of_every_ring():
  """Two layers, two rows of one prompt, two channels and three entries."""
  old = -np.ones((2, 2, 1, 3, 2), np.float32)
  new = np.arange(8, dtype=np.float32).reshape(2, 1, 2, 1, 1, 2)
  written = jax.jit(layers.write_ring)(
    layers.KeyValues(10 * old.swapaxes(-1, -2), old),
    layers.KeyValues(10 * new.swapaxes(-1, -2), new),
    1,
  )
  expected = old.copy()
  expected[:, :, 0, 1] = new.reshape(2, 2, 2)
  np.testing.assert_array_equal(written.values, expected)
  np.testing.assert_array_equal(written.keys, 10 * expected.swapaxes(-1, -2))


@pytest.mark.parametrize(
  ("window", "prompt", "ring"),
  [
    # After 6 steps, entries 0 to 4 of a ring of 5 have the ages 1, 0, 4, 3, 2.
    # Row 0 is at its token 0, and row 1 at its token 3.
    (None, [[1, 1, 0], [1, 1, 0]], [[0, 1, 0, 0, 0], [1, 1, 0, 1, 1]]),
    # A window of 3 reaches 2 tokens back: row 0 sees the prompt's last two, of
    # which one is no token, and row 1 sees its own tokens alone.
    (3, [[0, 1, 0], [0, 0, 0]], [[0, 1, 0, 0, 0], [1, 1, 0, 0, 1]]),
    # Row 1 sees one token before its completion.
    (5, [[1, 1, 0], [0, 0, 0]], [[0, 1, 0, 0, 0], [1, 1, 0, 1, 1]]),
    (6, [[1, 1, 0], [0, 1, 0]], [[0, 1, 0, 0, 0], [1, 1, 0, 1, 1]]),
  ],
)
def test_a_token_sees_its_prompt_and_entries_of_its_completion(
  window, prompt, ring
):
  prompt_mask = np.array([[True, True, False]])
  t = np.array([[0, 3]])
  prompt_visible, visible = jax.jit(
    layers.visible_to_token, static_argnums=(3, 4)
  )(prompt_mask, 6, t, 5, window)
  expected = np.array(prompt, bool)
  np.testing.assert_array_equal(
    np.broadcast_to(prompt_visible, (1, 2, 3))[0], expected
  )
  np.testing.assert_array_equal(visible[0], np.array(ring, bool))


@pytest.mark.parametrize("norm_place", ["pre", "post", "both"])
def test_a_layer_adds_attention_and_then_the_mlp_to_its_stream(norm_place):
  """A prompt of one token attends to itself: its value is attention's output.

  The norms before divide by the root mean square; those after also double.
  """
  config = dataclasses.replace(BASE, norm_place=norm_place, norm_eps=1e-12)
  rng = np.random.default_rng(0)
  x = rng.normal(size=(1, 1, 8)).astype(np.float32)
  places = {"pre": [""], "post": ["post_"], "both": ["", "post_"]}[norm_place]

  def random(*shape):
    return {"kernel": rng.normal(size=shape).astype(np.float32)}

  params = {
    "attention": {
      **{name: random(8, 2, 4) for name in ("query", "key", "value")},
      "output": random(2, 4, 8),
    },
    "mlp": {"gate": random(8, 12), "up": random(8, 12), "down": random(12, 8)},
  } | {
    f"{part}_{place}norm": {"scale": np.full(8, 2.0 if place else 1.0)}
    for part in ("attention", "mlp")
    for place in places
  }

  def norm(x, place):
    if place not in places:
      return x
    return x / np.sqrt(np.mean(x * x)) * (2 if place else 1)

  def project(x, *path):
    kernel = params[path[0]][path[1]]["kernel"].astype(np.float64)
    if path[1] == "output":
      return np.einsum("hk,hkd->d", x, kernel)
    return np.tensordot(x, kernel, 1)

  stream = x[0, 0].astype(np.float64)
  keys, values = (
    project(norm(stream, ""), "attention", name) for name in ("key", "value")
  )
  stream += norm(project(values, "attention", "output"), "post_")
  y = norm(stream, "")
  gate = project(y, "mlp", "gate")
  hidden = gate / (1 + np.exp(-gate)) * project(y, "mlp", "up")
  stream += norm(project(hidden, "mlp", "down"), "post_")

  result, keys_values = jax.jit(
    lambda params, x: layers.Layer(config).apply(
      {"params": params},
      *(x, layers.LayerPositions(None, None, None), np.ones((1, 1), bool)),
      method="forward_prompt",
    )
  )(params, x)
  np.testing.assert_allclose(result[0, 0], stream, rtol=1e-4, atol=1e-4)
  for one, expected in zip(keys_values, (keys, values), strict=True):
    np.testing.assert_allclose(one[0, :, 0], expected, atol=1e-5)
