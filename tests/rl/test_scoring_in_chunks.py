"""Heads on chunks of scored positions: same numbers, less memory and work."""

import dataclasses

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from models import policy, transformer
from models.config import ModelConfig
from rl import scoring, types

P, S, T, L, V = 2, 3, 5, 3, 11
CONFIG = ModelConfig(
  vocab_size=V,
  width=8,
  layers=1,
  heads=2,
  kv_heads=1,
  head_dim=4,
  mlp_width=8,
  value_head=True,
)
POLICY = policy.bind(CONFIG)
PROBES = (scoring.log_probs, scoring.entropy, scoring.values)
LENGTHS = np.array([[5, 1, 3], [2, 2, 4]])


@pytest.fixture(scope="module")
def params():
  shapes = jax.eval_shape(lambda: transformer.init(CONFIG, jax.random.key(0)))
  normal = np.random.default_rng(0).normal
  return jax.tree.map(lambda x: normal(size=x.shape).astype(x.dtype), shapes)


@pytest.fixture(scope="module")
def tokens():
  """A tool wrote the second token of the first sample."""
  rng = np.random.default_rng(1)
  mask = np.arange(T) < LENGTHS[..., None]
  mask[0, 0, 1] = False
  return types.Tokens(
    prompts=rng.integers(1, V, (P, L)),
    prompt_mask=np.ones((P, L), bool),
    completions=rng.integers(1, V, (P, S, T)),
    lengths=LENGTHS,
    mask=mask,
  )


def read(params, tokens, chunk, wanted=PROBES, bound=POLICY, watched=()):
  return scoring.read(
    bound, params, tokens, wanted, types.Named(), 0.7, chunk, watched
  )


def weighed(params, tokens, chunk):
  """A scalar that depends on every scored number in its own way."""
  weights = np.random.default_rng(2).normal(size=(P, S, T))
  found = read(params, tokens, chunk)
  return sum(
    jnp.sum(jnp.where(tokens.mask, value, 0) * (weights + i))
    for i, value in enumerate(found.values())
  )


@pytest.mark.parametrize("chunk", [1, 4, 14])
def test_numbers_and_gradient_are_those_of_all_at_once(params, tokens, chunk):
  value_and_grad = jax.jit(jax.value_and_grad(weighed), static_argnums=2)
  whole = value_and_grad(params, tokens, S * T)
  parts = value_and_grad(params, tokens, chunk)
  for found, expected in zip(
    jax.tree.leaves(parts), jax.tree.leaves(whole), strict=True
  ):
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-5)
  for value in jax.jit(read, static_argnums=2)(params, tokens, chunk).values():
    np.testing.assert_array_equal(value[~tokens.mask], 0)


def counting(calls: list[int]) -> types.Policy:
  """The policy, whose logits say of how many positions they were asked."""

  def score(params, tokens):
    scored = POLICY.score(params, tokens)

    def logits(hidden):
      jax.debug.callback(lambda: calls.append(len(hidden)))
      return scored.heads["logits"](hidden)

    return types.Scored(scored.hidden, {**scored.heads, "logits": logits})

  return dataclasses.replace(POLICY, score=score)


def test_positions_that_nobody_scores_are_left_out(params, tokens):
  calls = []
  read(params, tokens, 4, bound=counting(calls))
  jax.effects_barrier()
  # Both prompts have 8 scored positions of 15: two chunks of 4 in each.
  assert tokens.mask.sum((1, 2)).tolist() == [8, 8]
  assert calls == [4 * P, 4 * P]


def sizes(jaxpr: jax.extend.core.Jaxpr) -> list[int]:
  """Of all arrays that a program forms, those of its inner programs too."""
  found = []
  for equation in jaxpr.eqns:
    found += [var.aval.size for var in equation.outvars]
    for inner in jax.extend.core.jaxprs_in_params(equation.params):
      found += sizes(inner)
  return found


def test_whole_logits_are_never_formed_forward_or_backward():
  wide = dataclasses.replace(CONFIG, vocab_size=2**21)
  bound = policy.bind(wide)
  shape = (P, 64, 8)
  abstract = jax.eval_shape(lambda: transformer.init(wide, jax.random.key(0)))
  tokens = types.Tokens(
    prompts=np.ones((P, L), int),
    prompt_mask=np.ones((P, L), bool),
    completions=np.ones(shape, int),
    lengths=np.full(shape[:2], 8),
    mask=np.ones(shape, bool),
  )

  def total(params, chunk):
    found = read(params, tokens, chunk, PROBES[:2], bound)
    return sum(value.sum() for value in found.values())

  def largest(chunk):
    program = jax.make_jaxpr(jax.grad(total), static_argnums=1)
    return max(sizes(program(abstract, chunk).jaxpr))

  vocabulary = wide.vocab_size
  assert largest(64 * 8) >= P * 64 * 8 * vocabulary
  assert largest(None) == P * 16 * vocabulary  # the least chunk


def test_what_is_only_watched_is_not_differentiated(params, tokens):
  differentiated = []

  @jax.custom_jvp
  def mean(logits):
    return logits.mean(-1)

  @mean.defjvp
  def _(primals, tangents):
    differentiated.append(True)
    return primals[0].mean(-1), tangents[0].mean(-1)

  probe = scoring.Probe("mean", lambda logits, tokens: mean(logits))

  def total(params, wanted, watched):
    found = read(params, tokens, 4, wanted, POLICY, watched)
    return sum(value.sum() for value in found.values())

  grad = jax.jit(jax.grad(total), static_argnums=(1, 2))
  own = grad(params, (scoring.log_probs,), ())
  beside = grad(params, (scoring.log_probs,), (probe,))
  assert not differentiated
  jax.tree.map(np.testing.assert_array_equal, own, beside)
  grad(params, (scoring.log_probs, probe), (probe,))
  assert differentiated
