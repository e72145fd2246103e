"""Sampling: exact frequencies, exact log-probs, randomness by prompt."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled
from helpers.token_distribution import TRUNCATIONS, exact

from models import policy, sharding, transformer
from models.config import ModelConfig
from rl import types
from rl.sampling import generation
from rl.sampling.generation import Sampling

generation = compiled.functions(generation)

CONFIG = ModelConfig(
  vocab_size=14,
  width=8,
  layers=1,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp_width=8,
)
POLICY = policy.bind(CONFIG)
P, L, S, T = 8, 4, 3, 6
EOS = 3
PLAIN = Sampling(samples=S, max_tokens=T, eos_ids=(EOS,), pad_id=0)


@pytest.fixture(scope="module")
def params():
  shapes = jax.eval_shape(lambda: transformer.init(CONFIG, jax.random.key(0)))
  normal = np.random.default_rng(0).normal
  return jax.tree.map(
    lambda x: jnp.asarray(normal(size=x.shape), x.dtype), shapes
  )


def problems(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Prompts of every length from 1 to L, their masks and their ids."""
  prompts = np.random.default_rng(1).integers(1, 14, (count, L))
  lengths = 1 + np.arange(count) % L
  mask = np.arange(L) >= L - lengths[:, None]
  return np.where(mask, prompts, 0), mask, 100 + np.arange(count)


@functools.partial(jax.jit, static_argnums=4)
def generate(params, prompts, mask, ids, sampling, step=0):
  keys = generation.prompt_keys(jax.random.key(7), step, ids)
  return generation.generate(POLICY, params, prompts, mask, keys, sampling)


@jax.jit
def score(params, tokens):
  scored = POLICY.score(params, tokens)
  return scored.heads["logits"](scored.hidden)


@pytest.mark.parametrize("name", TRUNCATIONS)
def test_log_probs_are_those_of_score_under_the_sampled_distribution(
  params, name
):
  sampling = dataclasses.replace(PLAIN, **TRUNCATIONS[name])
  prompts, mask, ids = problems(P)
  samples = generate(params, prompts, mask, ids, sampling)
  real = np.arange(T) < np.asarray(samples.lengths)[..., None]
  tokens = types.Tokens(
    prompts, mask, samples.completions, samples.lengths, real
  )
  logits = np.asarray(score(params, tokens))
  for place in np.argwhere(real):
    p, s, t = place
    probs = exact(logits[p, s, t], sampling)
    expected = np.log(probs[samples.completions[p, s, t]])
    assert samples.log_probs[p, s, t] == pytest.approx(expected, abs=1e-5)
  np.testing.assert_array_equal(samples.log_probs[~real], 0)


def test_completions_end_at_eos_and_are_padded(params):
  prompts, mask, ids = problems(P)
  samples = jax.tree.map(
    np.asarray, generate(params, prompts, mask, ids, PLAIN)
  )
  for place in np.ndindex(P, S):
    completion, length = samples.completions[place], samples.lengths[place]
    ends = np.flatnonzero(completion[:length] == EOS)
    assert samples.finished[place] == (len(ends) > 0)
    assert length == (ends[0] + 1 if len(ends) else T)
    assert (completion[length:] == PLAIN.pad_id).all()
  assert 0 < samples.finished.mean() < 1  # both ends were seen


def test_a_sample_depends_on_its_prompt_and_number_only(params):
  prompts, mask, ids = problems(P)
  full = generate(params, prompts, mask, ids, PLAIN)
  order = np.array([3, 0, 2])
  part = generate(params, prompts[order], mask[order], ids[order], PLAIN)
  np.testing.assert_array_equal(part.completions, full.completions[order])
  more = dataclasses.replace(PLAIN, samples=S + 2, max_tokens=T + 2)
  more = generate(params, prompts, mask, ids, more)
  np.testing.assert_array_equal(more.completions[:, :S, :T], full.completions)


def test_samples_are_the_same_on_a_mesh(params):
  prompts, mask, ids = problems(P)
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  split = sharding.batch_sharding(mesh)
  placed = jax.device_put(params, sharding.shardings(params, mesh))
  inputs = jax.device_put((prompts, mask, ids), split)
  samples = generate(placed, *inputs, PLAIN)
  expected = generate(params, prompts, mask, ids, PLAIN)
  np.testing.assert_array_equal(samples.completions, expected.completions)
  np.testing.assert_allclose(samples.log_probs, expected.log_probs, atol=1e-5)


def test_steps_prompts_samples_and_positions_draw_different_numbers():
  # A constant model has independent tokens: equal rows would be equal numbers.
  flat = types.Policy(
    score=None,
    prefill=lambda params, prompts, mask, S, capacity: (
      jnp.zeros((len(prompts), 1000)),
      (),
    ),
    decode=lambda params, tokens, t, cache: (
      jnp.zeros((*tokens.shape, 1000)),
      cache,
    ),
  )
  sampling = Sampling(samples=8, max_tokens=8, eos_ids=(), pad_id=0)

  @jax.jit
  def draw(step):
    keys = generation.prompt_keys(jax.random.key(0), step, jnp.arange(8))
    prompts = jnp.zeros((8, 1), int)
    return generation.generate(flat, (), prompts, prompts == 0, keys, sampling)

  tokens = np.stack([draw(0).completions, draw(1).completions])
  for axis in range(tokens.ndim):
    neighbours = np.diff(tokens, axis=axis)
    assert (neighbours == 0).mean() < 0.02  # 1 in 1000 by chance


def test_decoding_stops_when_all_rows_have_ended():
  # A model that is certain of everything: token 3, then EOS as fifth token.
  sampling = Sampling(samples=2, max_tokens=50, eos_ids=(1, 2), pad_id=0)
  calls = []

  def decode(params, tokens, t, cache):
    jax.debug.callback(lambda t: calls.append(int(t.max())), t)
    certain = jnp.where(t >= 3, 1, 3)[..., None]
    return jnp.where(jnp.arange(4) == certain, 0.0, -jnp.inf), cache

  def prefill(params, prompts, mask, S, capacity):
    logits = jnp.where(jnp.arange(4) == 3, 0.0, -jnp.inf)
    return jnp.broadcast_to(logits, (len(prompts), 4)), ()

  counting = types.Policy(score=None, prefill=prefill, decode=decode)
  keys = generation.prompt_keys(jax.random.key(0), 0, jnp.arange(3))
  samples = generation.generate(
    counting, (), jnp.zeros((3, 1)), jnp.ones((3, 1)), keys, sampling
  )
  jax.effects_barrier()
  assert sorted(calls) == [0, 1, 2, 3]
  np.testing.assert_array_equal(samples.lengths, 5)
  for completion in samples.completions.reshape(6, 50).tolist():
    assert completion == [3, 3, 3, 3, 1] + [0] * 45
  assert samples.finished.all()
  np.testing.assert_array_equal(samples.log_probs, 0)  # all were certain


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (
      {"samples": 0},
      "samples = 0 must be an integer of at least 1; .* value is 1",
    ),
    ({"max_tokens": 2.5}, "max_tokens = 2.5 must be an integer"),
    ({"temperature": -1.0}, "temperature = -1.0 .* at least 0"),
    ({"temperature": float("nan")}, "temperature = nan must be a finite"),
    (
      {"top_k": -1},
      "top_k = -1 must be an integer of at least 0; .* value is 0",
    ),
    ({"top_p": 1.5}, r"top_p = 1.5 .* from 0.0 to 1.0; .* value is 1.0"),
    ({"top_p": 0.0}, "top_p = 0.0 keeps no token"),
    ({"min_p": -0.1}, "min_p = -0.1 must be"),
    ({"eos_ids": (1, -2)}, "eos_ids = -2 must be an integer of at least 0"),
  ],
)
def test_impossible_sampling_is_refused(change, message):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(PLAIN, **change)


def test_a_prompt_that_stands_twice_in_a_batch_draws_twice():
  """Else the second group would be the first again."""
  alone = generation.prompt_keys(jax.random.key(0), 3, jnp.array([5, 7]))
  twice = generation.prompt_keys(jax.random.key(0), 3, jnp.array([5, 7, 5, 5]))
  data = jax.random.key_data
  np.testing.assert_array_equal(data(twice)[:2], data(alone))
  assert len(np.unique(data(twice), axis=0)) == 4


def test_the_smallest_and_the_largest_settings_are_accepted():
  least = Sampling(samples=1, max_tokens=1, eos_ids=[0], pad_id=0)
  assert least.eos_ids == (0,)
  assert (least.temperature, least.top_k, least.top_p) == (1, 0, 1)
  assert (least.min_p, least.rows) == (0, 0)
  dataclasses.replace(least, temperature=0.0, top_p=1e-3, min_p=1.0)
  dataclasses.replace(least, top_p=1, min_p=0, top_k=1, rows=1)
  hash(least)  # it is a static argument of compiled functions
  with pytest.raises(dataclasses.FrozenInstanceError):
    least.samples = 2


@pytest.mark.parametrize(
  ("name", "values", "message"),
  [
    ("samples", (0, 2.5, True), "must be an integer of at least 1"),
    ("max_tokens", (0, 2.5, True), "must be an integer of at least 1"),
    ("top_k", (-1, 2.5, True), "must be an integer of at least 0"),
    ("rows", (-1, 2.5, True), "must be an integer of at least 0"),
    ("pad_id", (-1, 2.5, True), "must be an integer of at least 0"),
    ("eos_ids", (-1, 2.5, True), "must be an integer of at least 0"),
    (
      "temperature",
      (-0.01, np.inf, True),
      "must be a finite number of at least 0.0",
    ),
    ("min_p", (-0.01, 1.01), "must be a finite number from 0.0 to 1.0"),
    ("top_p", (-0.01, 1.01), "must be a finite number from 0.0 to 1.0"),
  ],
)
def test_settings_beyond_the_smallest_and_the_largest_are_refused(
  name, values, message
):
  for value in values:
    argument = (1, value) if name == "eos_ids" else value
    with pytest.raises(ValueError, match=f"{name} = {value} {message}"):
      dataclasses.replace(PLAIN, **{name: argument})


@pytest.mark.parametrize(
  ("change", "nearest"),
  [
    ({"samples": -3}, 1),
    ({"min_p": -0.25}, 0.0),
    ({"min_p": 1.25}, 1.0),
    ({"temperature": -1}, 0.0),
  ],
)
def test_a_refused_setting_is_told_the_nearest_valid_value(change, nearest):
  with pytest.raises(ValueError, match=f"nearest valid value is {nearest}$"):
    dataclasses.replace(PLAIN, **change)
  with pytest.raises(ValueError, match=r"must be an integer of at least 1$"):
    dataclasses.replace(PLAIN, samples="a")


def test_a_cache_grows_from_quarter_to_quarter_if_it_is_long():
  """A cache is long from 64 completion tokens on; quarters are rounded up."""
  capacities = generation.cache_capacities
  assert capacities(1) == (1,)
  assert capacities(63) == (63,)
  assert capacities(64) == (16, 32, 48, 64)
  assert capacities(65) == (17, 33, 49, 65)


def _constant(probs):
  """A policy whose tokens have the given probabilities at every position."""
  logits = jnp.log(jnp.asarray(probs, jnp.float32))

  def prefill(params, prompts, mask, rows, capacity):
    return jnp.broadcast_to(logits, (len(prompts), *logits.shape)), ()

  def decode(params, tokens, t, cache):
    return jnp.broadcast_to(logits, (*tokens.shape, *logits.shape)), cache

  return types.Policy(None, prefill, decode)


def _draw(sampling, ids=(5, 7), **settings):
  keys = generation.prompt_keys(jax.random.key(0), 0, jnp.array(ids))
  prompts = jnp.ones((len(ids), 1), jnp.int32)
  policy = _constant([0.5, 0.2, 0.3])

  @jax.jit
  def generate(prompts, keys):
    return generation.generate(
      policy, (), prompts, prompts > 0, keys, sampling, **settings
    )

  return generate(prompts, keys)


@pytest.mark.parametrize("max_tokens", [1, 4])
def test_samples_are_the_inversion_of_their_own_uniform_numbers(max_tokens):
  """The number of a token is that of its prompt, sample and position."""
  sampling = Sampling(samples=3, max_tokens=max_tokens, eos_ids=(2,), pad_id=9)
  samples = _draw(sampling, first=2)
  keys = generation.prompt_keys(jax.random.key(0), 0, jnp.array([5, 7]))
  fold = jax.random.fold_in
  for p, s in np.ndindex(2, 3):
    expected = []
    for t in range(max_tokens):
      u = jax.random.uniform(fold(fold(keys[p], 2 + s), t))
      expected.append(int((u >= 0.5).astype(int) + (u >= 0.7).astype(int)))
      if expected[-1] == 2:
        break
    length = len(expected)
    padding = max_tokens - length
    assert samples.completions[p, s].tolist() == expected + [9] * padding
    assert samples.lengths[p, s] == length
    assert bool(samples.finished[p, s]) == (expected[-1] == 2)
    log_probs = np.log([0.5, 0.2, 0.3])[expected]
    np.testing.assert_allclose(
      samples.log_probs[p, s], [*log_probs, *[0] * padding], atol=1e-6
    )
  # The second of three samples alone.
  active = jnp.array([[False, True, False]] * 2)
  alone = _draw(sampling, first=2, active=active)
  np.testing.assert_array_equal(
    alone.completions[:, 1], samples.completions[:, 1]
  )
  assert (alone.completions[:, ::2] == 9).all()
  assert alone.lengths[:, ::2].tolist() == [[0, 0]] * 2
  assert alone.finished[:, ::2].all()
  assert not alone.log_probs[:, ::2].any()
  # By default, the first sample has the number 0.
  more = dataclasses.replace(sampling, samples=5)
  np.testing.assert_array_equal(
    _draw(more).completions[:, 2:], samples.completions
  )


def test_keys_of_prompts_fold_in_step_prompt_and_occurrence():
  key, fold = jax.random.key(3), jax.random.fold_in
  keys = generation.prompt_keys(key, 4, jnp.array([7, 2, 7]))
  want = [
    fold(fold(fold(key, 4), prompt), earlier)
    for prompt, earlier in ((7, 0), (2, 0), (7, 1))
  ]
  data = jax.random.key_data
  np.testing.assert_array_equal(data(keys), np.stack([data(k) for k in want]))
