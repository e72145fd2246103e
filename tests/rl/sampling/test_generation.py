"""Sampling: exact frequencies, exact log-probs, randomness by prompt."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import policy, sharding, transformer
from models.config import ModelConfig
from rl import types
from rl.sampling import generation
from rl.sampling.generation import Sampling

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
TRUNCATIONS = {
  "plain": {},
  "cold": {"temperature": 0.6},
  "top_k": {"top_k": 4},
  "top_p": {"top_p": 0.7},
  "min_p": {"min_p": 0.2},
  "all": {"temperature": 1.5, "top_k": 9, "top_p": 0.8, "min_p": 0.1},
}


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


def exact(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
  """The sampled distribution of one row, token by token in float64."""
  x = np.asarray(logits, np.float64) / sampling.temperature
  probs = np.exp(x - x.max())
  probs /= probs.sum()
  order = sorted(range(len(probs)), key=lambda i: -probs[i])
  if sampling.top_k:
    order = order[: sampling.top_k]
  mass = sum(probs[i] for i in order)
  tokens, total = [], 0.0
  for i in order:
    if total < sampling.top_p * mass or sampling.top_p == 1:
      tokens.append(i)
    total += probs[i]
  tokens = [i for i in tokens if probs[i] >= sampling.min_p * probs[order[0]]]
  truncated = np.zeros(len(probs))
  truncated[tokens] = probs[tokens]
  return truncated / truncated.sum()


@pytest.mark.parametrize("name", TRUNCATIONS)
def test_frequencies_over_a_grid_of_uniforms_are_the_probabilities(name):
  sampling = dataclasses.replace(PLAIN, **TRUNCATIONS[name])
  logits = np.random.default_rng(2).normal(size=17) * 2
  grid = 4000
  uniforms = jnp.asarray((np.arange(grid) + 0.5) / grid, jnp.float32)
  rows = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (grid, 17))
  tokens, log_probs = generation.sample_token(rows, uniforms, sampling)
  probs = exact(logits, sampling)
  counts = np.bincount(tokens, minlength=17)
  # An interval of length p holds p * grid points of the grid, up to one.
  np.testing.assert_allclose(counts / grid, probs, atol=1.001 / grid)
  assert (counts[probs == 0] == 0).all()
  np.testing.assert_allclose(log_probs, np.log(probs[tokens]), atol=1e-5)


@pytest.mark.parametrize("name", ["plain", "top_k", "top_p", "min_p"])
@pytest.mark.parametrize("uniform", [0.0, 1 - 2.0**-24, 1.0])
def test_a_token_of_probability_zero_is_never_drawn(name, uniform):
  # The neighbours of every possible token are impossible, as are the first and
  # the last token. Sums over 3001 tokens round both up and down.
  generator = np.random.default_rng(3)
  logits = generator.normal(size=(64, 3001)).astype(np.float32)
  logits[:, ::2] = -np.inf
  sampling = dataclasses.replace(PLAIN, **TRUNCATIONS[name])
  uniforms = jnp.full(64, uniform, jnp.float32)
  tokens, log_probs = generation.sample_token(logits, uniforms, sampling)
  assert (np.asarray(tokens) % 2 == 1).all()
  assert np.isfinite(log_probs).all()


def test_tied_tokens_are_kept_together():
  logits = jnp.log(jnp.array([[0.4, 0.2, 0.2, 0.2]]))
  for truncation in ({"top_k": 2}, {"top_p": 0.5}):
    sampling = dataclasses.replace(PLAIN, **truncation)
    assert np.isfinite(generation.truncate(logits, sampling)).all()


@pytest.mark.parametrize("truncation", [{"top_p": 0.9}, {"top_k": 50}])
def test_truncations_equal_sorting_on_a_large_vocabulary(truncation):
  logits = np.random.default_rng(4).normal(size=(8, 5000)) * 3
  sampling = dataclasses.replace(PLAIN, **truncation)
  is_kept = np.isfinite(generation.truncate(jnp.asarray(logits), sampling))
  probs = np.stack([exact(row, sampling) for row in logits])
  np.testing.assert_array_equal(is_kept, probs > 0)


def test_temperature_zero_is_the_most_likely_token():
  logits = np.random.default_rng(5).normal(size=(9, 13))
  greedy = dataclasses.replace(PLAIN, temperature=0)
  tokens, log_probs = generation.sample_token(logits, jnp.full(9, 0.9), greedy)
  np.testing.assert_array_equal(tokens, logits.argmax(-1))
  np.testing.assert_array_equal(log_probs, 0)


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
