"""Episodes of several turns: replies, rewards, ends and random numbers."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy

from models import policy, sharding, transformer
from models.config import ModelConfig
from models.rope import RopeScaling
from rl import method_loss, methods, types
from rl.sampling import environment as environments
from rl.sampling import generation, token_sampling
from rl.sampling.environment import Environment, Outcome, Reply
from rl.sampling.generation import Sampling
from rl.update_plan import Plan

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


@pytest.mark.parametrize("rows", [0, 2])
def test_episodes_are_the_same_on_a_mesh(rows):
  sampling = dataclasses.replace(SAMPLING, rows=rows)
  count = 4
  prompts = np.random.default_rng(1).integers(4, V, (count, L))
  config = dataclasses.replace(CONFIG, dtype="float32", param_dtype="float32")
  params, bound = start(config), policy.bind(config)

  @jax.jit
  def run(params, prompts, facts):
    keys = generation.prompt_keys(jax.random.key(7), 0, jnp.arange(count))
    return generation.generate(
      *(bound, params, prompts, prompts > 0, keys, sampling, 0, None),
      *(ENVIRONMENT, facts),
    )

  inputs = prompts, {"secret": np.arange(count)}
  expected = run(params, *inputs)
  mesh = sharding.make_mesh(data=2, tensor=2, devices=jax.devices()[:4])
  placed = jax.device_put(params, sharding.shardings(params, mesh))
  split = jax.device_put(inputs, sharding.batch_sharding(mesh))
  samples = run(placed, *split)
  for name in ("completions", "lengths", "finished", "turns"):
    np.testing.assert_array_equal(
      getattr(samples, name), getattr(expected, name)
    )
  np.testing.assert_allclose(samples.log_probs, expected.log_probs, atol=1e-5)
  assert samples.turns.max() > 0


def test_only_active_episodes_are_played():
  active = np.arange(P * S).reshape(P, S) % 3 == 1
  with jax.enable_x64(True):
    _, _, expected = play(CONFIG)
    sampling = dataclasses.replace(SAMPLING, rows=2)
    _, _, samples = play(CONFIG, sampling, active)
  np.testing.assert_array_equal(
    samples.completions, np.where(active[..., None], expected.completions, 0)
  )
  np.testing.assert_array_equal(samples.lengths, expected.lengths * active)
  np.testing.assert_array_equal(
    samples.turns, np.where(active[..., None], expected.turns, -1)
  )


def test_a_turn_that_is_cut_has_the_floor():
  """Each prompt has one turn that ends, and one without an end."""
  texts = np.zeros((1, 2, T), int)
  texts[0, :, :3] = (6, 6, EOS)  # a sum of 15: three times the token 1
  texts[0, :, 3:6] = 1
  texts[0, :, 6:8] = 7
  play_again = functools.partial(
    environments.replay, ENVIRONMENT, {"secret": np.zeros(1, np.int32)}, texts
  )
  episodes = play_again(np.array([[8, 6]]), (EOS,))
  np.testing.assert_allclose(
    episodes.rewards[0], [[1.5, -1, 0, 0], [1.5, 0, 0, 0]]
  )
  expected = [0, 0, 0, -1, -1, -1]
  assert episodes.turns[0, 0, :8].tolist() == [*expected, 1, 1]
  assert (episodes.turns[0, 1, 6:] == -1).all()
  assert (episodes.ends == environments.TOKEN_BUDGET).all()


def test_the_expert_ends_every_turn():
  facts = {"secret": np.arange(6)}
  keys = jax.random.split(jax.random.key(0), 6)
  texts, lengths = environments.demonstrate(ENVIRONMENT, facts, keys, 30)
  episodes = environments.replay(
    ENVIRONMENT, facts, texts[:, None], lengths[:, None], (EOS,)
  )
  texts, turns = np.asarray(texts), np.asarray(episodes.turns[:, 0])
  for p in range(6):
    for turn in range(turns[p].max() + 1):
      written = texts[p][turns[p] == turn]
      assert written[-1] == EOS
      assert len(written) in (2, 3)
  assert (np.asarray(lengths) > 3).any()
  assert (episodes.ends != environments.TOKEN_BUDGET).all()


# Two turns of one token each, and a reply of 1 or 2, which is the fact.
FIRST = np.array([0.4, -0.2, 0.1])
SECOND = np.random.default_rng(0).normal(size=(3, 2, 3))
FIRST_REWARDS = np.array([0.9, 0.2, 0.5])
SECOND_REWARDS = np.random.default_rng(1).random((3, 2, 3))


def test_the_gradient_of_the_best_worst_turn_is_exact():
  """The objective is max@2 over three episodes; all actions are enumerated."""
  n, k, action = 3, 2, 4

  def answer(state, tokens, start, end):
    first, second = tokens[0] - action, tokens[start] - action
    reward = jnp.where(
      start == 0,
      jnp.asarray(FIRST_REWARDS)[first],
      jnp.asarray(SECOND_REWARDS)[first, state["fact"], second],
    )
    reply = state["fact"][None] + 1
    return Reply(state, reply, jnp.int32(1), reward, start > 0)

  game = Environment(
    2,
    lambda facts: facts,
    answer,
    outcome=lambda s, e: Outcome(jnp.float32(0), jnp.int32(0), jnp.int32(0)),
    act=act,
  )
  pairs = list(itertools.product(range(3), repeat=2))
  groups = np.array(list(itertools.product(range(9), repeat=n)))

  def value(params):
    """E[max over k of min over turns], by Pr(max <= x) = Pr(score <= x)^k."""
    total = 0.0
    for fact in (0, 1):
      first = jax.nn.softmax(params["first"])
      second = jax.nn.softmax(params["second"][:, fact])
      p = jnp.stack([first[a] * second[a, b] for a, b in pairs])
      worst = np.array(
        [min(FIRST_REWARDS[a], SECOND_REWARDS[a, fact, b]) for a, b in pairs]
      )
      order = np.argsort(worst)
      increments = jnp.diff(jnp.cumsum(p[order]) ** k, prepend=0.0)
      total += (increments * worst[order]).sum() / 2
    return total

  def score(params, tokens):
    ids = tokens.completions
    ends = 50 * jax.nn.one_hot(jnp.full(ids.shape[:2], EOS), 7)
    pad = functools.partial(jnp.pad, constant_values=-50.0)
    first = pad(params["first"], (action, 0))
    second = params["second"][ids[..., 0] - action, ids[..., 2] - 1]
    second = pad(second, ((0, 0), (0, 0), (action, 0)))
    first = jnp.broadcast_to(first, second.shape)
    # Where the environment writes, the logits depend on the parameters, too.
    hidden = jnp.stack([first, ends, first, second, ends], 2)
    return types.Scored(hidden, {"logits": lambda h: h})

  method = methods.get("max_at_k_min_form", k=k)
  bound = dataclasses.replace(tabular_policy.policy, score=score)
  params = {"first": jnp.asarray(FIRST), "second": jnp.asarray(SECOND)}
  base = tabular_policy.rollout(p=1, s=n, t=5, k=2, ragged=False)

  @jax.jit
  @jax.vmap
  def gradient(actions, fact):
    ends = jnp.full((n, 1), EOS)
    reply = jnp.broadcast_to(fact + 1, (n, 1))
    texts = jnp.concatenate(
      [actions[:, :1] + action, ends, reply, actions[:, 1:] + action, ends], -1
    )[None]
    lengths = jnp.full((1, n), 5)
    facts = {"fact": fact[None]}
    episodes = environments.replay(game, facts, texts, lengths, (EOS,))
    rollout = base.replace(
      tokens=base.tokens.replace(
        completions=texts, lengths=lengths, mask=episodes.turns >= 0
      ),
      turns=episodes.turns,
      step_ids=episodes.turns,
      step_scores=episodes.rewards,
      step_mask=jnp.ones((1, n, 2), bool),
    )
    batch, weights, _ = method_loss.prepare(method, rollout, method.init())
    descent, _ = method_loss.gradient(
      method, bound, params, batch, weights, Plan()
    )
    return jax.tree.map(jnp.negative, descent)

  expected = jax.grad(value)(params)
  actual = jax.tree.map(jnp.zeros_like, params)
  for fact in (0, 1):
    actions = np.stack([groups // 3, groups % 3], -1)  # [groups, n, 2]
    chances = np.asarray(jax.nn.softmax(FIRST))[actions[..., 0]]
    second = np.asarray(jax.nn.softmax(SECOND[:, fact], -1))
    chances = chances * second[actions[..., 0], actions[..., 1]]
    gradients = gradient(actions, np.full(len(actions), fact))
    weights = chances.prod(-1) / 2
    actual = jax.tree.map(
      lambda a, g, w=weights: a + np.tensordot(w, np.asarray(g), 1),
      actual,
      gradients,
    )
  jax.tree.map(
    lambda a, e: np.testing.assert_allclose(a, e, atol=1e-6), actual, expected
  )
