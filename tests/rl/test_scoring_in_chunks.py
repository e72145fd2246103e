"""Heads are applied to chunks of scored positions: the numbers are the same."""

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


def read(params, tokens, chunk, probes=PROBES, bound=POLICY, stopped=()):
  return scoring.read(
    bound, params, tokens, probes, types.Named(), 0.7, chunk, stopped
  )


def weighted_sum(params, tokens, chunk):
  """A scalar that depends on every scored number with another weight."""
  weights = np.random.default_rng(2).normal(size=(P, S, T))
  values = read(params, tokens, chunk)
  return sum(
    jnp.sum(jnp.where(tokens.mask, value, 0) * (weights + i))
    for i, value in enumerate(values.values())
  )


@pytest.mark.parametrize("chunk", [1, 4, 14])
def test_numbers_and_gradient_are_those_of_all_at_once(params, tokens, chunk):
  value_and_grad = jax.jit(jax.value_and_grad(weighted_sum), static_argnums=2)
  at_once = value_and_grad(params, tokens, S * T)
  parts = value_and_grad(params, tokens, chunk)
  for value, expected in zip(
    jax.tree.leaves(parts), jax.tree.leaves(at_once), strict=True
  ):
    np.testing.assert_allclose(value, expected, atol=1e-4, rtol=1e-5)
  for value in jax.jit(read, static_argnums=2)(params, tokens, chunk).values():
    np.testing.assert_array_equal(value[~tokens.mask], 0)


def counting(calls: list[int]) -> types.Policy:
  """The policy; the number of positions of each call of its head is listed."""

  def score(params, tokens):
    scored = POLICY.score(params, tokens)

    def logits(hidden):
      jax.debug.callback(lambda: calls.append(len(hidden)))
      return scored.heads["logits"](hidden)

    return types.Scored(scored.hidden, {**scored.heads, "logits": logits})

  return dataclasses.replace(POLICY, score=score)


def test_positions_that_are_not_scored_are_left_out(params, tokens):
  calls = []
  read(params, tokens, 4, bound=counting(calls))
  jax.effects_barrier()
  # Both prompts have 8 scored positions of 15: two chunks of 4 in each.
  assert tokens.mask.sum((1, 2)).tolist() == [8, 8]
  assert calls == [4 * P, 4 * P]


def sizes(jaxpr: jax.extend.core.Jaxpr) -> list[int]:
  """Sizes of all arrays of a program, with those of its inner programs."""
  result = []
  for equation in jaxpr.eqns:
    result += [var.aval.size for var in equation.outvars]
    for inner in jax.extend.core.jaxprs_in_params(equation.params):
      result += sizes(inner)
  return result


def test_whole_logits_are_never_formed_forward_or_backward():
  wide = dataclasses.replace(CONFIG, vocab_size=2**22)
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
    values = read(params, tokens, chunk, PROBES[:2], bound)
    return sum(value.sum() for value in values.values())

  def largest(chunk):
    program = jax.make_jaxpr(jax.grad(total), static_argnums=1)
    return max(sizes(program(abstract, chunk).jaxpr))

  vocabulary = wide.vocab_size
  assert largest(64 * 8) >= P * 64 * 8 * vocabulary
  assert largest(None) == P * 16 * vocabulary  # the smallest chunk


def test_stopped_probes_are_not_differentiated(params, tokens):
  differentiated = []

  @jax.custom_jvp
  def mean(logits):
    return logits.mean(-1)

  @mean.defjvp
  def _(primals, tangents):
    differentiated.append(True)
    return primals[0].mean(-1), tangents[0].mean(-1)

  probe = scoring.Probe("mean", lambda logits, tokens: mean(logits))

  def total(params, probes, stopped):
    values = read(params, tokens, 4, probes, POLICY, stopped)
    return sum(value.sum() for value in values.values())

  grad = jax.jit(jax.grad(total), static_argnums=(1, 2))
  without = grad(params, (scoring.log_probs,), ())
  with_stopped = grad(params, (scoring.log_probs,), (probe,))
  assert not differentiated
  jax.tree.map(np.testing.assert_array_equal, without, with_stopped)
  grad(params, (scoring.log_probs, probe), (probe,))
  assert differentiated
