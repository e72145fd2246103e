"""Episodes of several turns: replies, rewards, ends and random numbers."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import policy, transformer
from models.config import ModelConfig
from models.rope import RopeScaling
from rl.sampling import environment as environments
from rl.sampling import generation, token_sampling
from rl.sampling.environment import Environment, Outcome, Reply
from rl.sampling.generation import Sampling

P, L, S, T, K = 3, 4, 5, 24, 4
EOS, V = 3, 14
CONFIG = ModelConfig(
  vocab_size=V,
  width=8,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp_width=8,
  dtype="float64",
  param_dtype="float64",
)
CONFIGS = {
  "plain": CONFIG,
  "windows_dynamic": dataclasses.replace(
    CONFIG,
    layer_kinds=("local", "global"),
    window=5,
    rope_scaling=RopeScaling(kind="dynamic", factor=2.0, original=16),
  ),
}
SAMPLING = Sampling(
  samples=S, max_tokens=T, eos_ids=(EOS,), pad_id=0, temperature=1.1
)
FACTS = {"secret": np.arange(P)}


def reset(facts):
  return {"sum": facts["secret"], "turns": jnp.int32(0)}


def step(state, tokens, start, end):
  """Repeats the sum of all turns, up to three times; a sum of 2 mod 9 ends."""
  t = jnp.arange(len(tokens))
  total = jnp.where((t >= start) & (t < end), tokens, 0).sum() + state["sum"]
  return Reply(
    state={"sum": total, "turns": state["turns"] + 1},
    tokens=jnp.full(3, total % 5 + 1),  # may be an end token
    length=total % 4,
    reward=total / 10,
    done=total % 9 == 2,
  )


def outcome(state, end):
  return Outcome(state["sum"] + 100.0 * end, state["turns"], state["sum"])


def act(state, key):
  tokens = jax.random.randint(key, (2,), 4, V)
  length = 1 + state["sum"] % 2
  tokens = jnp.where(jnp.arange(2) == length, EOS, tokens)
  tokens = jnp.append(tokens, EOS)
  return tokens, jnp.where(length == 1, 2, 3)


ENVIRONMENT = Environment(K, reset, step, outcome, act, floor=-1.0)


def start(config):
  """Random weights whose turns end at many lengths."""
  shapes = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
  normal = np.random.default_rng(0).normal
  params = jax.tree.map(lambda x: normal(size=x.shape).astype(x.dtype), shapes)
  params["unembed"]["kernel"] *= 0.3
  return params


def problems():
  prompts = np.random.default_rng(1).integers(4, V, (P, L))
  mask = np.arange(L) >= np.arange(P)[:, None]
  keys = generation.prompt_keys(jax.random.key(7), 0, jnp.arange(P))
  return np.where(mask, prompts, 0), mask, keys


@functools.partial(jax.jit, static_argnums=(0, 3))
def _play(bound, params, inputs, sampling, active=None):
  return generation.generate(
    bound, params, *inputs, sampling, 0, active, ENVIRONMENT, FACTS
  )


def play(config, sampling=SAMPLING, active=None):
  params = jax.tree.map(jnp.asarray, start(config))
  bound = policy.bind(config)
  samples = _play(bound, params, problems(), sampling, active)
  return params, bound, jax.tree.map(np.asarray, samples)


@functools.partial(jax.jit, static_argnums=0)
def prefill(bound, params, prompt, mask):
  return bound.prefill(params, prompt, mask, 1, T, L + T)


@functools.partial(jax.jit, static_argnums=0)
def decode(bound, params, token, t, cache):
  return bound.decode(bound.serve(params), token, t, cache)


@jax.jit
def draw(logits, key):
  uniform = jax.random.uniform(key, (1,), jnp.float32)
  return token_sampling.sample_token(logits, uniform, SAMPLING)


def play_afresh(params, bound, p, s):
  """One episode, each turn of which reads its prefix anew; in float64."""
  prompts, mask, keys = problems()
  state = jax.tree.map(np.asarray, reset({"secret": FACTS["secret"][p]}))
  text, log_probs, turns = [], [], []
  key = jax.random.fold_in(keys[p], s)
  for turn in range(K):
    start = len(text)
    space = [0] * (T - start)
    prefix = np.array([[*space, *prompts[p], *text]])
    known = np.array([[*space, *mask[p], *[1] * start]], bool)
    logits, cache = prefill(bound, params, prefix, known)
    logits, t = logits[:, None], 0
    while True:
      token, log_prob = draw(logits[0], jax.random.fold_in(key, len(text)))
      text.append(int(token[0]))
      log_probs.append(float(log_prob[0]))
      turns.append(turn)
      if text[-1] == EOS or len(text) == T:
        break
      logits, cache = decode(bound, params, token[None], t, cache)
      t += 1
    if text[-1] != EOS:
      return text, log_probs, turns, "token_budget", state
    padded = np.array([*text, *[0] * (T - len(text))])
    reply = jax.tree.map(np.asarray, step(state, padded, start, len(text)))
    state = reply.state
    if reply.done:
      return text, log_probs, turns, "done", state
    if turn + 1 == K:
      return text, log_probs, turns, "turn_limit", state
    if len(text) + reply.length >= T:
      return text, log_probs, turns, "token_budget", state
    text += reply.tokens[: reply.length].tolist()
    log_probs += [0.0] * int(reply.length)
    turns += [-1] * int(reply.length)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [0, 2])
def test_every_turn_is_that_of_a_policy_that_reads_its_prefix_anew(name, rows):
  sampling = dataclasses.replace(SAMPLING, rows=rows)
  with jax.enable_x64(True):
    params, bound, samples = play(CONFIGS[name], sampling)
    episodes = environments.replay(
      ENVIRONMENT, FACTS, samples.completions, samples.lengths, (EOS,)
    )
    seen = set()
    for p, s in np.ndindex(P, S):
      text, log_probs, turns, end, state = play_afresh(params, bound, p, s)
      length = samples.lengths[p, s]
      assert samples.completions[p, s, :length].tolist() == text
      assert not samples.completions[p, s, length:].any()
      np.testing.assert_allclose(
        samples.log_probs[p, s, :length], log_probs, atol=1e-5
      )
      assert samples.turns[p, s, :length].tolist() == turns
      assert (samples.turns[p, s, length:] == -1).all()
      assert samples.finished[p, s] == (end == "done")
      assert environments.ENDS[episodes.ends[p, s]] == end
      expected = state["sum"] + 100 * episodes.ends[p, s]
      assert episodes.outcomes.score[p, s] == expected
      seen |= {end}
  np.testing.assert_array_equal(episodes.turns, samples.turns)
  assert seen == set(environments.ENDS)
  assert samples.turns.max() == K - 1
