"""Worked examples of RLFR, and what its flow learns from."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, small_run, worked_example

from experiments.logging import run_logger
from experiments.training_run import loop
from rl import method_loss, methods, types
from rl.methods.shaping import rlfr

close = np.testing.assert_allclose
DEPTHS = (0.25, 0.5, 0.75)
D = 2
SMALL = {"size": D, "blocks": 1, "updates": 1, "frozen_steps": 0}


def with_states(rollout, hidden):
  """The rollout with hidden states `[3, P, S, T, D]` of the three depths."""
  extras = {
    str(rlfr.hidden_at(depth)): jnp.asarray(states, jnp.float32)
    for depth, states in zip(DEPTHS, hidden, strict=True)
  }
  return rollout.replace(extras=types.Named(extras))


def random_states(rollout, size=D):
  rng = np.random.default_rng(0)
  return rng.normal(size=(3, *rollout.mask.shape, size))


@functools.partial(jax.jit, static_argnums=0)
def _step(transform, rollout, state):
  return transform.apply(None, rollout, state)


def flow(**settings):
  defaults = {
    "coef": 0.01,
    "threshold": 0.6,
    "max_tokens": 15,
    "time": 0.8,
    "rate": 1e-2,
    "seed": 0,
  }
  return rlfr.flow_rewards(**(SMALL | defaults | settings))


# Rewards of tokens.


@pytest.mark.worked_example("method:rlfr")
def test_charges_of_twenty_tokens():
  """Sixteen scores are above 0.6 of the largest, and 15 of them charged."""
  u = np.array([0.0, 0.5, *np.linspace(0.7, 1.0, 16), 0.25])
  mask = jnp.arange(20) < 19
  # -0.01 u of the 15 largest above 0.6; that of 0.7 is the 16th.
  expected = np.where(u > 0.7, -0.01 * u, 0)
  for masked in (-100, 100, np.nan):
    score = jnp.array([*(2 + 8 * u), masked])
    close(rlfr.token_rewards(score, mask), [*expected, 0], rtol=1e-5)
  # A score exactly at the threshold 1/2 is not charged.
  score = jnp.array([0.0, 1.0, 2.0, 3.0, 4.0])
  value = rlfr.token_rewards(score, mask[:5], 0.2, 0.5, 4)
  close(value, [0, 0, 0, -0.15, -0.2], rtol=1e-6)
  # Of tokens with equal scores the first ones are charged.
  value = rlfr.token_rewards(jnp.ones(9).at[0].set(0.0), mask[:9], max_tokens=3)
  close(value, [0, *[-0.01] * 3, *[0] * 5], rtol=1e-6)
  # Nothing is charged if all scores are equal, or none exists.
  equal = jnp.full((2, 4), 3.0)
  exists = jnp.array([[True] * 4, [False] * 4])
  np.testing.assert_array_equal(rlfr.token_rewards(equal, exists), 0)


def test_states_are_paired_with_those_of_the_token_before():
  """Entry t is the state after token t - 1; a tool wrote token 2."""
  states = jnp.arange(5.0)[:, None] + 10
  mask = jnp.array([True, True, False, True, True])
  after, before, has_score = rlfr.with_conditions(states, mask)
  np.testing.assert_array_equal(has_score, [1, 0, 0, 1, 0])
  np.testing.assert_array_equal(after[:, 0], [11, 0, 0, 14, 0])
  np.testing.assert_array_equal(before[:, 0], [10, 0, 0, 13, 0])
  # A packed pass has no state at tokens that are not scored.
  packed = jnp.where(mask[:, None], states, jnp.nan)
  for x, y in zip(
    rlfr.with_conditions(packed, mask), (after, before, has_score), strict=True
  ):
    np.testing.assert_array_equal(x, y)


def _linear(field, x, time, condition, depth):
  """A velocity in which every argument counts."""
  del field
  scale = jnp.array([1.0, -2.0])
  return 2 * x - condition * scale + 3 * time[..., None] + 4 * depth


def _expected_scores(hidden, noise, lengths, t):
  """s of every token, sample by sample; the last token has none."""
  scores = [np.zeros(length - 1) for length in lengths]
  for i, length in enumerate(lengths):
    for k in range(length - 1):
      for depth, states, e in zip(DEPTHS, hidden, noise, strict=True):
        h, before = states[0, i, k + 1], states[0, i, k]
        x = t * h + (1 - t) * e[i, k]
        v = 2 * x - before * [1, -2] + 3 * t + 4 * depth
        scores[i][k] += t / (1 - t) * np.mean((v - (h - e[i, k])) ** 2) / 3
  return scores


@pytest.mark.worked_example("method:rlfr")
@pytest.mark.parametrize("t", [0.8, 0.3])
def test_advantages_of_a_linear_velocity(monkeypatch, t):
  """z on the last token, charges on others, and the sum from each token on."""
  lengths = [9, 6, 3, 9]
  rollout = worked_example.rollout([1, 0, 0, 0], lengths)
  hidden = random_states(rollout)
  noise = np.random.default_rng(1).normal(size=(3, 4, 9, D))
  monkeypatch.setattr(rlfr, "velocity", _linear)

  def normal(keys, number, shape):
    is_noise = len(shape) == 4  # [3, S, T, D]; times [S, T] are not used
    return jnp.asarray(noise)[None] if is_noise else jnp.zeros((1, *shape))

  monkeypatch.setattr(rlfr, "_normal", normal)
  changes = {} if t == 0.8 else {"time": t, "coef": 0.2, "max_tokens": 2}
  m = methods.get("rlfr", **(SMALL | {"updates": 0} | changes))
  actual, state = m.advantage.apply(
    None, with_states(rollout, hidden), m.advantage.init()
  )
  scores = _expected_scores(hidden, noise, lengths, t)
  target, num_charged = np.zeros((4, 9)), 0
  for i, (s, z) in enumerate(zip(scores, [1.5, -0.5, -0.5, -0.5], strict=True)):
    u = (s - s.min()) / (s.max() - s.min())
    limit = 15 if t == 0.8 else 2
    charged = (u > 0.6) & (u >= sorted(u)[-min(limit, len(u))])
    r = np.where(charged, -changes.get("coef", 0.01) * u, 0)
    num_charged += charged.sum()
    r = np.append(r, z)
    target[i, : lengths[i]] = np.cumsum(r[::-1])[::-1]
  close(actual[0], target, atol=2e-5)
  logged = m.metrics({"advantage": state})
  close(logged["flow/score_right"], scores[0].mean(), rtol=1e-4)
  wrong = np.concatenate(scores[1:]).mean()
  close(logged["flow/score_wrong"], wrong, rtol=1e-4)
  close(logged["flow/charged_frac"], num_charged / sum(lengths), rtol=1e-6)


def test_a_perfect_velocity_scores_zero(monkeypatch):
  """If all states equal h, the velocity at x is (h - x) / (1 - t)."""
  h = jnp.array([0.5, -1.0])

  def perfect(field, x, time, condition, depth):
    return (h - x) / (1 - time[..., None])

  monkeypatch.setattr(rlfr, "velocity", perfect)
  states = jnp.broadcast_to(h, (3, 4, D))
  noise = jax.random.normal(jax.random.key(0), states.shape)
  times = jnp.full((3, 4), 0.8)
  value = rlfr.deviations({}, states, states, 0.5, times, noise)
  close(value, 0, atol=1e-8)
  # v - (h' - noise) = (h - h') / (1 - t) = -5 if h' = h + 1.
  value = rlfr.deviations({}, states + 1, states, 0.5, times, noise)
  close(value, 25, rtol=1e-4)


@pytest.mark.worked_example("method:rlfr")
def test_loss_without_charges():
  """With coef = 0 it is GRPO without a KL, with a dual clip."""
  rollout = clipped_group.group()
  m = methods.get("rlfr", coef=0.0, **SMALL)
  states = with_states(rollout, random_states(rollout))
  a = worked_example.advantages(m, states)[0]
  close(a, clipped_group.Z_SCORES[:, None] * clipped_group.MASK, rtol=1e-5)
  for cap, limit in ((3.0, np.inf), (1.3, 1.3)):
    m = methods.get("rlfr", coef=0.0, cap=cap, **SMALL)
    expected = clipped_group.objective(
      a, clipped_group.SAMPLE_MEAN, 0.8, 1.2, limit
    )
    clipped_group.check_loss(m, rollout, expected)
  defaults = (
    "coef=0.01, threshold=0.6, max_tokens=15, time=0.8, size=64, blocks=6, "
    "rate=0.0001, updates=8, frozen_steps=20",
    "low=0.2, high=0.2, cap=3",
    "ddof=1, eps=1e-09",
  )
  assert all(text in str(methods.get("rlfr")) for text in defaults)


# The velocity field.


def test_a_velocity_against_numpy():
  """A residual network of two blocks, modulated by all that it is given."""
  size = 3
  rng = np.random.default_rng(2)
  field = jax.tree.map(
    lambda x: rng.normal(size=x.shape) / 2,
    rlfr.init_field(jax.random.key(0), size, 2),
  )
  x, c = rng.normal(size=(2, 5, size))
  t, depth = rng.uniform(size=5), 0.25

  def silu(x):
    return x / (1 + np.exp(-x))

  def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]

  def embed(layers, value):
    angles = np.outer(value, 10_000 ** (-np.arange(128) / 128))
    sinusoids = np.concatenate([np.cos(angles), np.sin(angles)], 1)
    return dense(layers["second"], silu(dense(layers["first"], sinusoids)))

  def norm(x, scale):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale

  y = embed(field["time"], t) + embed(field["depth"], np.full(5, depth))
  y = silu(y + dense(field["condition"], c))
  h = dense(field["input"], x)
  for i in range(2):
    p = jax.tree.map(lambda leaf, i=i: leaf[i], field["blocks"])
    shift, scale, gate = np.split(dense(p["modulation"], y), 3, 1)
    inner = norm(h, p["scale"]) * (1 + scale) + shift
    h = h + gate * dense(p["second"], silu(dense(p["first"], inner)))
  last = field["last"]
  shift, scale = np.split(dense(last["modulation"], y), 2, 1)
  expected = dense(last["output"], norm(h, last["scale"]) * (1 + scale) + shift)
  field = jax.tree.map(jnp.float32, field)
  actual = rlfr.velocity(
    field, jnp.float32(x), jnp.float32(t), jnp.float32(c), depth
  )
  close(actual, expected, rtol=2e-4, atol=2e-4)


def test_a_new_field_has_no_velocity_and_different_layers():
  field = rlfr.init_field(jax.random.key(0), 8, 2)
  x = jnp.ones((1, 8))
  np.testing.assert_array_equal(rlfr.velocity(field, x, jnp.ones(1), x, 0.5), 0)
  kernels = [
    field["input"]["kernel"],
    field["condition"]["kernel"],
    *field["blocks"]["first"]["kernel"],
    *field["blocks"]["second"]["kernel"],
    *(field[name]["second"]["kernel"] for name in ("time", "depth")),
  ]
  # The limit of Xavier's uniform distribution is sqrt(6 / (8 + 8)).
  for kernel in kernels:
    assert 0.5 < np.abs(kernel).max() <= (6 / 16) ** 0.5
  assert len({float(kernel[0, 0]) for kernel in kernels}) == len(kernels)


# Training.


def scene(size=D):
  """Right samples have states near (1, -1, 1, ...), and wrong ones opposite."""
  scores = np.tile([1.0, 0.0], (4, 3))
  rollout = worked_example.rollout(scores, np.full((4, 6), 5))
  signs = np.where(scores > 0, 1, -1)[..., None, None]
  hidden = signs * (-1) ** np.arange(size) + 0.1 * random_states(rollout, size)
  return rollout, hidden


def test_the_flow_learns_the_states_of_right_samples():
  rollout, hidden = scene(8)
  rollout = with_states(rollout, hidden)
  t = flow(size=8, updates=60, frozen_steps=5)
  state = t.init()
  scores = []
  for seed in range(8):
    keys = jax.random.split(jax.random.key(seed), 4)
    rewards, state = _step(t, rollout.replace(keys=keys), state)
    scores.append(
      [state.metrics[f"flow/score_{verdict}"] for verdict in ("right", "wrong")]
    )
  right, wrong = zip(*scores, strict=True)
  # At first v = 0, and s = 4 * mean (h - noise)^2 is about 8 for both.
  close((right[0], wrong[0]), 8, rtol=0.3)
  assert right[-1] < right[0] / 4
  assert wrong[-1] > 2 * right[-1]
  assert (rewards <= 0).all()
  assert 0 < (rewards < 0).mean() < 0.5


def test_only_right_samples_that_exist_train_the_flow():
  rollout, hidden = scene()
  exists = np.ones((4, 6), bool)
  exists[0, 0] = False  # a right sample
  rollout = rollout.replace(sample_mask=jnp.asarray(exists))
  # In the first update the modulation is 0, so that conditions do not count.
  t = flow(updates=3)
  reference = _step(t, with_states(rollout, hidden), t.init())[1].optimizer

  def optimizer_with(value, *where):
    changed = hidden.copy()
    changed[(slice(None), *where)] = value
    return _step(t, with_states(rollout, changed), t.init())[1].optimizer

  def differ(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return any(np.abs(x - y).max() > 1e-7 for x, y in pairs)

  # Adam's moments are those of the gradient. The state after the last token is
  # unknown: entry 4 is that after token 3.
  assert differ(reference, optimizer_with(5.0, 1, 2, 4))
  assert differ(reference, optimizer_with(5.0, 1, 2, 0))
  assert not differ(reference, optimizer_with(5.0, slice(None), [1, 3, 5]))
  assert not differ(reference, optimizer_with(np.nan, 0, 0))
  # Nothing to learn from: the field and the moments of Adam do not change.
  nothing = rollout.replace(correct=jnp.zeros_like(rollout.correct))
  start = t.init()
  for other in (
    with_states(nothing, hidden),
    with_states(rollout, np.full_like(hidden, np.nan)),
  ):
    new = _step(t, other, start)[1]
    jax.tree.map(
      np.testing.assert_array_equal,
      (new.field, new.optimizer),
      (start.field, start.optimizer),
    )


def test_each_update_reads_some_samples_of_every_group():
  """The second of two updates reads the samples 1 and 3 of five."""
  slices = rlfr._slice_samples(jnp.arange(1, 11).reshape(2, 5), 1, 2)
  expected = [[[1, 3, 5], [6, 8, 10]], [[2, 4, 0], [7, 9, 0]]]
  np.testing.assert_array_equal(slices, expected)
  rollout, hidden = scene()
  hidden[:, :, :2] = np.nan  # the gradient of the first update is not finite
  rollout = with_states(rollout, hidden)
  # The right samples have the numbers 0, 2 and 4.
  for updates, is_learned in ((1, False), (3, True), (8, True)):
    t = flow(updates=updates)
    state = _step(t, rollout, t.init())[1]
    assert state.field["last"]["output"]["bias"].any() == is_learned


def test_times_are_random_in_the_frozen_steps_only(monkeypatch):
  """The first of the times are those of the scores, 0.8."""
  seen = []

  def normal(keys, number, shape):
    return jnp.full((len(keys), *shape), 0.5)

  def record(field, x, time, condition, depth):
    jax.debug.callback(lambda t: seen.append(np.unique(t)), time)
    return x * field["last"]["output"]["bias"]

  monkeypatch.setattr(rlfr, "_normal", normal)
  monkeypatch.setattr(rlfr, "velocity", record)
  rollout, hidden = scene()
  rollout = with_states(rollout, hidden)
  for step, expected in ((1, {0.8, 1 / (1 + np.exp(-0.5))}), (2, {0.8})):
    seen.clear()
    t = flow(frozen_steps=2)
    t.apply(None, rollout.replace(step=jnp.int32(step)), t.init())
    jax.effects_barrier()
    close(sorted({float(x) for x in np.concatenate(seen)}), sorted(expected))


def test_frozen_steps_leave_every_token_out_of_the_loss():
  rollout, hidden = scene()
  rollout = with_states(rollout, hidden)
  m = methods.get("rlfr", **(SMALL | {"frozen_steps": 3}))
  for step, is_trained in ((0, False), (2, False), (3, True)):
    batch, _, state = method_loss.prepare(
      m, rollout.replace(step=jnp.int32(step)), m.init()
    )
    assert batch.masks[0].any() == is_trained
    bias = state["advantage"][0][1].field["last"]["output"]["bias"]
    assert bias.any()  # the flow learns in every step


def test_settings_that_cannot_be():
  with pytest.raises(ValueError, match="time = 1 must be between 0 and 1"):
    methods.get("rlfr", time=1)
  rollout, hidden = scene()
  m = methods.get("rlfr", size=64)
  with pytest.raises(ValueError, match=r"size = 64 must be the width .*, 2"):
    m.advantage.apply(None, with_states(rollout, hidden), m.advantage.init())


def test_a_run_that_freezes_the_policy_first(tmp_path):
  """The first of two steps has no update, and then the charges are paid."""
  e = small_run.experiment(
    method="rlfr(size=16, blocks=1, updates=2, frozen_steps=1)", steps=2
  )
  loop.run(e, tmp_path)
  metrics = {
    name: values
    for name, (_, values) in run_logger.read_metrics(tmp_path).items()
  }
  np.testing.assert_array_equal(metrics["optim/skipped"], [1, 0])
  assert (metrics["flow/charged_frac"] > 0.05).all()
  assert (metrics["flow/score_right"] > 0).all()
  assert (
    metrics["advantage/abs_mean"][0] == 0 < metrics["advantage/abs_mean"][1]
  )
