"""Truncated sampling: the support, and probes renormalised over it."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy

from models import forward_pass, policy, transformer
from models.config import ModelConfig
from rl import bit_sets, method_loss, methods, scoring, types
from rl.sampling import generation, token_sampling
from rl.update_plan import Plan

CONFIG = ModelConfig(
  vocab_size=40,
  width=8,
  layers=1,
  heads=2,
  kv_heads=2,
  head_dim=4,
  mlp_width=8,
)
POLICY = policy.bind(CONFIG)
P, S, T = 4, 3, 6
SAMPLING = generation.Sampling(
  samples=S,
  max_tokens=T,
  eos_ids=(3,),
  pad_id=0,
  temperature=1.3,
  top_k=12,
  top_p=0.8,
  returns_support=True,
)
PROMPTS = np.arange(4 * P).reshape(P, 4)
PROMPT_MASK = np.ones((P, 4), bool)


def random_params(seed):
  shapes = jax.eval_shape(lambda: transformer.init(CONFIG, jax.random.key(0)))
  normal = np.random.default_rng(seed).normal
  return jax.tree.map(
    lambda x: jnp.asarray(normal(size=x.shape), x.dtype), shapes
  )


@functools.partial(jax.jit, static_argnums=1)
def generate(params, sampling):
  keys = generation.prompt_keys(jax.random.key(7), 0, jnp.arange(P))
  return generation.generate(
    POLICY, params, PROMPTS, PROMPT_MASK, keys, sampling
  )


def text(samples, support):
  return types.Tokens(
    prompts=PROMPTS,
    prompt_mask=PROMPT_MASK,
    completions=samples.completions,
    lengths=samples.lengths,
    mask=jnp.arange(T) < samples.lengths[..., None],
    support=support,
  )


@functools.partial(jax.jit, static_argnums=2)
def read(params, tokens, chunk=None):
  probes = {scoring.log_probs, scoring.entropy}
  temperature = SAMPLING.temperature
  return scoring.read(
    POLICY, params, tokens, probes, types.Named(), temperature, chunk
  )


@jax.jit
def logits_of(params, tokens):
  scored = POLICY.score(params, tokens)
  return scored.heads["logits"](scored.hidden)


@pytest.fixture(scope="module")
def sampled():
  params = random_params(0)
  return params, generate(params, SAMPLING)


def test_samples_have_the_tokens_that_could_have_been_sampled(sampled):
  params, samples = sampled
  without = generate(
    params, dataclasses.replace(SAMPLING, returns_support=False)
  )
  assert without.support is None
  for name in ("completions", "lengths", "log_probs", "finished"):
    np.testing.assert_array_equal(
      getattr(without, name), getattr(samples, name)
    )
  tokens = text(samples, None)
  mask = np.asarray(tokens.mask)
  support = np.asarray(bit_sets.unpack(samples.support, CONFIG.vocab_size))
  assert not support[~mask].any()
  assert np.take_along_axis(support, samples.completions[..., None], -1)[
    mask
  ].all()
  logits = np.asarray(logits_of(params, tokens))[mask]
  truncated = token_sampling.truncate(jnp.asarray(logits), SAMPLING)
  np.testing.assert_array_equal(support[mask], truncated > -np.inf)
  counts = support[mask].sum(-1)
  assert counts.min() < counts.max() <= 12


def test_rows_that_take_the_next_sample_keep_its_tokens(sampled):
  params, samples = sampled
  refilled = generate(params, dataclasses.replace(SAMPLING, rows=1))
  np.testing.assert_array_equal(refilled.support, samples.support)


@pytest.mark.parametrize("form", ["padded", "packed", "chunks"])
def test_on_policy_the_log_probs_are_those_of_the_sampler(sampled, form):
  params, samples = sampled
  tokens = text(samples, samples.support)
  mask = np.asarray(tokens.mask)
  if form == "packed":
    tokens = tokens.replace(room=forward_pass.count_positions(tokens))
  values = read(params, tokens, 4 if form == "chunks" else None)
  np.testing.assert_allclose(
    values["log_probs"][mask], samples.log_probs[mask], atol=1e-5
  )
  logits = np.asarray(logits_of(params, text(samples, None)))[mask]
  support = np.asarray(bit_sets.unpack(samples.support, CONFIG.vocab_size))[
    mask
  ]
  scaled = np.where(support, logits / SAMPLING.temperature, -np.inf)
  p = np.exp(scaled - scaled.max(-1, keepdims=True))
  p /= p.sum(-1, keepdims=True)
  entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
  np.testing.assert_allclose(values["entropy"][mask], entropy, atol=1e-5)
  naive = read(params, text(samples, None))["log_probs"][mask]
  ratio = np.exp(naive - samples.log_probs[mask])
  assert (ratio < 1).all()
  assert ratio.mean() < 0.95


# By enumeration: a policy of one token among five. Three are the support.

LOGITS = np.array([0.5, -1.0, 0.1, -0.4, 0.3])
OTHER_LOGITS = np.array([0.1, -0.2, 0.6, -0.5, -0.1])
SUPPORT = np.array([True, False, True, False, True])
REWARDS = np.array([0.2, 0.9, 1.0, 0.4, -0.5])


def truncated_softmax(logits):
  weights = np.where(SUPPORT, np.exp(logits), 0.0)
  return weights / weights.sum()


def expected(fn, n):
  """Mean of fn(samples of n tokens) over the truncated distribution."""
  tuples = np.array(list(itertools.product(np.flatnonzero(SUPPORT), repeat=n)))
  p = truncated_softmax(LOGITS)[tuples].prod(-1)
  return np.tensordot(p, np.asarray(fn(jnp.asarray(tuples))), 1)


def on_tokens(actions, has_support):
  """A rollout of one prompt with these samples of one token, `[n]`."""
  n = actions.shape[-1]
  base = tabular_policy.rollout(p=1, s=n, t=1, k=1, ragged=False)
  words = jnp.broadcast_to(bit_sets.pack(jnp.asarray(SUPPORT)), (1, n, 1, 1))
  log_probs = jnp.log(jnp.asarray(truncated_softmax(LOGITS), jnp.float32))
  return base.replace(
    tokens=base.tokens.replace(
      completions=actions[None, :, None],
      mask=jnp.ones((1, n, 1), bool),
      support=words if has_support else None,
    ),
    scores=jnp.asarray(REWARDS, jnp.float32)[actions][None],
    behavior_log_probs=log_probs[actions][None, :, None],
  )


def score_logits(params, tokens):
  hidden = jnp.broadcast_to(params["logits"], (*tokens.completions.shape, 5))
  return types.Scored(hidden, {"logits": lambda h: h})


ONE_TOKEN = dataclasses.replace(tabular_policy.policy, score=score_logits)


def test_the_gradient_is_that_of_the_truncated_policy():
  """max@2 of two samples; without the support it is another gradient."""
  m = methods.get("max_at_k", k=2)

  def mean_gradient(has_support):
    @jax.jit
    @jax.vmap
    def gradient(actions):
      rollout = on_tokens(actions, has_support)
      params = {"logits": jnp.asarray(LOGITS, jnp.float32)}
      batch, weights, _ = method_loss.prepare(m, rollout, m.init())
      actual, _ = method_loss.gradient(
        m, ONE_TOKEN, params, batch, weights, Plan()
      )
      return -actual["logits"]

    return expected(gradient, 2)

  def best_of_two(logits):
    p = jnp.where(SUPPORT, jnp.exp(logits), 0.0)
    p /= p.sum()
    best = np.maximum(REWARDS[:, None], REWARDS)
    return p @ best @ p

  exact = jax.grad(best_of_two)(jnp.asarray(LOGITS))
  np.testing.assert_allclose(mean_gradient(has_support=True), exact, atol=1e-6)
  assert np.abs(mean_gradient(has_support=False) - exact).max() > 0.05


def test_the_mean_ratio_to_the_sampler_is_one():
  """Off-policy, after an update; naively it is the mass of the support."""
  params = {"logits": jnp.asarray(OTHER_LOGITS, jnp.float32)}

  def mean_ratio(has_support):
    @jax.jit
    @jax.vmap
    def ratio(actions):
      rollout = on_tokens(actions, has_support)
      values = scoring.read(
        *(ONE_TOKEN, params, rollout.tokens, {scoring.log_probs}),
        types.Named(),
      )
      log_ratio = values["log_probs"] - rollout.behavior_log_probs
      return jnp.exp(log_ratio)[0, 0, 0]

    return expected(ratio, 1)

  np.testing.assert_allclose(mean_ratio(has_support=True), 1.0, atol=1e-6)
  softmax = np.exp(OTHER_LOGITS) / np.exp(OTHER_LOGITS).sum()
  np.testing.assert_allclose(
    mean_ratio(has_support=False), softmax[SUPPORT].sum(), atol=1e-6
  )
