"""Every way to split a decoder over devices computes what one device does."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.aot import hlo
from models import forward_pass, policy, sharding, transformer
from models.config import ModelConfig
from models.rope import RopeScaling
from rl import scoring, types
from rl.sampling import generation

P, S, T, L, V = 8, 4, 7, 5, 16
GROUPED = ModelConfig(
  vocab_size=V,
  width=16,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp_width=16,
  attention="blocked",
)
MODELS = {
  "grouped": GROUPED,
  "windows, tied, value head, angles by length, looped": dataclasses.replace(
    GROUPED,
    rope_scaling=RopeScaling("dynamic", factor=2.0, original=6),
    layer_kinds=("local", "global"),
    window=3,
    tied_embeddings=True,
    value_head=True,
    unroll=1,
    remat="full",
  ),
  "experts": dataclasses.replace(
    GROUPED, experts=4, experts_per_token=2, normalize_experts=True, unroll=1
  ),
}
MESHES = {
  "tensor": {"data": 2, "fsdp": 2, "tensor": 2},
  "context": {"data": 2, "context": 4},
  "tensor and context": {"data": 1, "fsdp": 2, "tensor": 2, "context": 2},
  "replica": {"replica": 2, "data": 1, "fsdp": 4},
}
LENGTHS = np.random.default_rng(0).integers(1, T + 1, (P, S))


def batch():
  rng = np.random.default_rng(1)
  return types.Tokens(
    prompts=rng.integers(1, V, (P, L)),
    prompt_mask=np.arange(L) >= np.array([0, 2, 1, 4] * 2)[:, None],
    completions=rng.integers(1, V, (P, S, T)),
    lengths=LENGTHS,
    mask=np.arange(T) < LENGTHS[..., None],
  )


def start(config):
  """Parameters of which none is 0."""
  shapes = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
  normal = np.random.default_rng(2).normal
  return jax.tree.map(
    lambda x: (0.3 * normal(size=x.shape)).astype(x.dtype), shapes
  )


def place(mesh, params, tokens):
  rows = sharding.batch_sharding(mesh)
  return (
    jax.device_put(params, sharding.shardings(params, mesh)),
    jax.tree.map(lambda x: jax.device_put(x, rows), tokens),
  )


def learning(config, chunk):
  """`(params, tokens) ->` what is read of every token, and a gradient."""
  desired = [scoring.log_probs, scoring.entropy]
  desired += [scoring.values] * config.value_head

  def loss(params, tokens):
    result = scoring.read(
      policy.bind(config), params, tokens, desired, types.Named(), chunk=chunk
    )
    weights = jnp.cos(jnp.arange(P * S * T, dtype=jnp.float32))
    weights = weights.reshape(P, S, T) * tokens.mask
    remaining = {
      name: jnp.where(tokens.mask, x, 0) for name, x in result.items()
    }
    return sum((weights * x).sum() for x in remaining.values()), remaining

  return jax.jit(jax.grad(loss, has_aux=True))


def drawing(config=GROUPED):
  sampling = generation.Sampling(S, T, eos_ids=(3,), pad_id=0, rows=S)

  @jax.jit
  def draw(params, tokens):
    keys = generation.prompt_keys(jax.random.key(5), 0, jnp.arange(P))
    return generation.generate(
      policy.bind(config),
      params,
      tokens.prompts,
      tokens.prompt_mask,
      keys,
      sampling,
    )

  return draw


def close(result, expected, atol):
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=atol), result, expected
  )


@pytest.fixture(scope="module", params=MODELS)
def model(request):
  """A decoder, its parameters, its program, and what one device makes of it."""
  config = MODELS[request.param]
  params, program = start(config), learning(config, 8)
  return config, params, program, program(params, batch())


@pytest.mark.parametrize("axes", ["tensor", "tensor and context"])
def test_a_packed_pass_is_split_like_a_padded_one(model, axes):
  """Short completions, several of which share a row of the attention."""
  config, params, on_one_device, _ = model
  lengths = np.minimum(LENGTHS, 3)
  lengths[0, 0] = T
  tokens = batch()
  tokens = tokens.replace(
    lengths=lengths, mask=np.arange(T) < lengths[..., None]
  )
  mesh = sharding.make_mesh(**MESHES[axes])
  # As many tokens as the largest group of prompts has.
  inputs = tokens.prompt_mask.sum(-1) + (lengths - 1).sum(-1)
  groups = inputs.reshape(sharding.num_prompt_shards(mesh), -1)
  room = math.ceil(groups.mean(-1).max())
  packed = tokens.replace(room=room)
  assert room < inputs.max()
  assert forward_pass.num_rows(config, packed) < S
  result = learning(config, 8)(*place(mesh, params, packed))
  close(result, on_one_device(params, tokens), 2e-5)


@pytest.mark.parametrize("axes", MESHES)
def test_probes_and_gradients_are_those_of_one_device(model, axes):
  config, params, _, expected = model
  mesh = sharding.make_mesh(**MESHES[axes])
  result = learning(config, 8)(*place(mesh, params, batch()))
  close(result, expected, 2e-5)
  gradients = jax.tree.leaves(expected[0])
  assert min(float(np.abs(leaf).max()) for leaf in gradients) > 1e-3


def test_a_mixture_sends_what_other_decoders_do():
  """Over data each device sorts its own tokens."""
  tokens, mesh = batch(), sharding.make_mesh(data=8)
  sent = []
  for config in (MODELS["experts"], dataclasses.replace(GROUPED, unroll=1)):
    arguments = place(mesh, start(config), tokens)
    for make in (drawing(config), learning(config, 8)):
      text = make.lower(*arguments).compile().as_text()
      result = hlo.collectives(text, [0] * 8)
      sent.append({kind: each.count for kind, each in result.items()})
  assert sent[:2] == sent[2:]


@pytest.fixture(scope="module")
def samples():
  return drawing()(start(GROUPED), batch())


@pytest.mark.parametrize("axes", MESHES)
def test_samples_are_those_of_one_device(samples, axes):
  params, draw, expected = start(GROUPED), drawing(), samples
  mesh = sharding.make_mesh(**MESHES[axes])
  result = draw(*place(mesh, params, batch()))
  np.testing.assert_array_equal(result.completions, expected.completions)
  close(result.log_probs, expected.log_probs, 1e-5)


@pytest.mark.parametrize("unroll", [0, 1])
def test_keys_of_samples_lie_on_the_devices_that_split_them(unroll):
  config = dataclasses.replace(GROUPED, unroll=unroll)
  placed = place(sharding.make_mesh(data=2, context=4), start(config), batch())
  program = drawing(config).lower(*placed).compile()
  rings = re.findall(r"f32\[(?:2,)?(\d+),2,7,4\]", program.as_text())
  assert set(rings) <= {str(P * S // 8)}
  assert rings


def sent(program, *args):
  text = program.lower(*args).compile().as_text()
  result = hlo.collectives(text, [0] * 8, {None: 1})
  return {kind: one.count for kind, one in result.items()}


def test_chunks_of_positions_send_nothing():
  """Tests that activations are gathered before the heads and summed after."""
  mesh = sharding.make_mesh(data=2, fsdp=4)
  placed = place(mesh, start(GROUPED), batch())
  few, many = (sent(learning(GROUPED, chunk), *placed) for chunk in (14, 2))
  assert few
  assert few == many


def test_a_token_is_drawn_without_gathering_parameters():
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  placed = place(mesh, start(GROUPED), batch())
  program = drawing().lower(*placed).compile()

  def gathers(turns):
    result = hlo.collectives(program.as_text(), [0] * 8, {None: turns})
    return result["all-gather"].bytes

  assert gathers(1) > 0
  # A turn gathers the odds of a device's rows over `tensor`, in blocks of 128.
  assert gathers(2) - gathers(1) == P * S // 4 * 128 * 4
