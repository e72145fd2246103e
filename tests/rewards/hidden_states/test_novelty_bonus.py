"""Tests of `rewards.hidden_states.novelty_bonus`."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import compiled, worked_example

import rewards
from rewards.hidden_states import novelty_bonus

novelty_bonus = compiled.functions(novelty_bonus)

next_bonus = jax.jit(
  novelty_bonus.next_bonus, static_argnames=("gamma", "rate")
)


def stream(batches, share=1.0, rate=1e-2, d=4, **hyper):
  """Bonuses of batches `[N, K, D]`, one after another."""
  state = novelty_bonus.init(jax.random.key(0), d, width=16, outputs=8)
  result = []
  for i, batch in enumerate(batches):
    bonus, state = next_bonus(
      state,
      jnp.asarray(batch, jnp.float32),
      jnp.ones(batch.shape[:-1], bool),
      jax.random.key(i),
      share=share,
      rate=rate,
      **hyper,
    )
    result.append(np.asarray(bonus))
  return result, state


def test_what_is_seen_again_and_again_is_no_longer_new():
  rng = np.random.default_rng(4)
  batch = rng.normal(size=(16, 1, 4))
  result, state = stream([batch] * 300)
  assert result[-1].mean() < 0.02 * result[0].mean()
  other = 3 + rng.normal(size=(16, 1, 4))
  bonus, _ = jax.jit(novelty_bonus.next_bonus)(
    state,
    np.float32(np.concatenate([batch, other])),
    np.ones((32, 1), bool),
    jax.random.key(1),
  )
  assert bonus[16:].min() > 5 * bonus[:16].max()


@pytest.mark.worked_example("function:novelty_bonus.next_bonus")
def test_the_scale_is_the_deviation_of_all_discounted_sums():
  """Offline over the stream, by a loop; nothing is learned meanwhile."""
  rng = np.random.default_rng(5)
  batches = [rng.normal(size=(8, 3, 4)) * (1 + i) for i in range(4)]
  batches[2][3, 1] = 1e3  # over 5 deviations off in every channel: clipped
  gamma = 0.9
  result, state = stream(batches, rate=0.0, gamma=gamma)
  sums = []
  for i, batch in enumerate(batches):
    observed = np.concatenate([b.reshape(-1, 4) for b in batches[: i + 1]])
    x = (batch - observed.mean(0)) / observed.std(0)
    x = jnp.asarray(np.clip(x, -5, 5), jnp.float32)
    raw = np.asarray(novelty_bonus.errors(state, x))
    so_far = np.zeros(8)
    for k in range(3):
      so_far = gamma * so_far + raw[:, k]
      sums.append(so_far)
    expected = raw / np.concatenate(sums).std()
    np.testing.assert_allclose(result[i], expected, rtol=1e-4)


def test_without_a_share_nothing_is_learned():
  rng = np.random.default_rng(12)
  start = novelty_bonus.init(jax.random.key(0), 4, width=16, outputs=8)
  _, state = stream([rng.normal(size=(8, 2, 4)) for _ in range(3)], share=0.0)
  jax.tree.map(
    np.testing.assert_array_equal,
    *((s.target, s.predictor, s.adam) for s in (state, start)),
  )
  assert state.observations.count[0] == 3 * 16  # but they were seen


def test_a_first_batch_of_one_kind_is_finite():
  result, _ = stream([np.ones((4, 1, 4))] * 2)
  assert all(np.isfinite(x).all() for x in result)


def test_masked_observations_are_not_seen():
  rng = np.random.default_rng(6)
  batch = rng.normal(size=(6, 2, 4))
  mask = rng.random((6, 2)) < 0.6
  state = novelty_bonus.init(jax.random.key(0), 4)
  next_bonus = jax.jit(functools.partial(novelty_bonus.next_bonus, share=1.0))
  key = jax.random.key(1)
  clean = next_bonus(state, batch, mask, key)
  dirty = np.where(mask[..., None], batch, np.nan)
  again = next_bonus(state, dirty, mask, key)
  jax.tree.map(np.testing.assert_array_equal, again, clean)
  assert not clean[0][~mask].any()
  bonus, same = next_bonus(state, dirty, np.zeros_like(mask), key)
  assert not bonus.any()
  jax.tree.map(np.testing.assert_array_equal, same, state)


def layers(*weights):
  """Returns a network of one unit per layer, without biases."""
  return [
    {"kernel": jnp.array([[w]], jnp.float32), "bias": jnp.zeros(1)}
    for w in weights
  ]


def small_state():
  """State of f(x) = relu(x) and g(x) = 2 relu(x), before any observation."""
  state = novelty_bonus.init(jax.random.key(0), 1)
  predictor = layers(1, 1, 2)
  adam = optax.scale_by_adam().init(predictor)
  return state._replace(target=layers(1, 1), predictor=predictor, adam=adam)


@pytest.mark.worked_example(
  "function:novelty_bonus.discounted", "function:novelty_bonus.errors"
)
def test_discounted_sums_and_errors_by_hand():
  """y_k = gamma y_{k-1} + r_k, without the second of four entries."""
  rewards = jnp.array([1.0, jnp.nan, 0.5, 2.0])
  mask = jnp.array([True, False, True, True])
  value = novelty_bonus.discounted(rewards, mask, 0.5)
  np.testing.assert_allclose(value, [1, 0, 1, 2.5], rtol=1e-6)
  value = novelty_bonus.discounted(rewards, mask)
  np.testing.assert_allclose(value, [1, 0, 1.49, 3.4751], rtol=1e-6)
  # (relu(x) - 2 relu(x))^2
  value = novelty_bonus.errors(small_state(), jnp.array([[3.0], [-1.0]]))
  np.testing.assert_allclose(value, [9, 0])
  # The mean over two outputs: (1 - 0.2)^2 and (3 - (-1))^2.
  state = small_state()._replace(
    target=[{"kernel": jnp.array([[1.0, 3.0]]), "bias": jnp.zeros(2)}],
    predictor=[
      {"kernel": jnp.array([[0.7, 0.5]]), "bias": jnp.array([-0.5, -1.5])}
    ],
  )
  value = novelty_bonus.errors(state, jnp.array([1.0]))
  np.testing.assert_allclose(value, (0.8**2 + 4**2) / 2, rtol=1e-6)
  # f(x) = relu(x + 0.5) + 0.25 and g(x) = 2 relu(x): 1.75 - 2.
  state = small_state()
  for layer, bias in zip(state.target, (0.5, 0.25), strict=True):
    layer["bias"] = jnp.array([bias])
  value = novelty_bonus.errors(state, jnp.array([[1.0], [-2.0]]))
  np.testing.assert_allclose(value, [0.0625, 0.0625], rtol=1e-6)
  # Only g is trained: d (f - g)^2 / dw is 2 * 0.25 relu(1) for its last weight.
  slopes = jax.grad(
    lambda networks: novelty_bonus.errors(
      state._replace(target=networks[0], predictor=networks[1]),
      jnp.array([1.0]),
    )
  )((state.target, state.predictor))
  assert not any(x.any() for x in jax.tree.leaves(slopes[0]))
  np.testing.assert_allclose(slopes[1][2]["kernel"], 0.5, rtol=1e-6)


@pytest.mark.worked_example("function:novelty_bonus.next_bonus")
def test_bonus_and_step_of_the_predictor_by_hand(monkeypatch):
  """Observations (5, 1) and 3: mean 3, variance 8/3; the fourth is missing."""
  shares = []

  def bernoulli(key, p, shape):
    shares.append(p)
    return jnp.array([[True, False], [False, True]])

  monkeypatch.setattr(jax.random, "bernoulli", bernoulli)
  observations = jnp.array([[[5.0], [1.0]], [[3.0], [jnp.nan]]])
  mask = jnp.array([[True, True], [True, False]])
  bonus, state = next_bonus(
    small_state(), observations, mask, jax.random.key(0)
  )
  assert shares == [0.25]
  # x = (5 - 3) / sqrt(8/3), and errors relu(x)^2 = 3/2, 0 and 0, divided by
  # the deviation of the discounted sums 1.5, 0.99 1.5 and 0.
  expected = [[1.5 / np.std([1.5, 0.99 * 1.5, 0]), 0], [0, 0]]
  np.testing.assert_allclose(bonus, expected, rtol=1e-5)
  # A first step of Adam moves each weight by 1e-4 against the sign of its
  # slope: g is above f for the only observation that exists and was chosen.
  slopes = [layer["kernel"].item() for layer in state.predictor]
  np.testing.assert_allclose(slopes, np.array([1, 1, 2]) - 1e-4, rtol=1e-6)
  np.testing.assert_allclose(state.predictor[2]["bias"], -1e-4, rtol=1e-3)
  assert [layer["kernel"].item() for layer in state.target] == [1, 1]
  assert state.observations.count[0] == 3


def test_the_first_observation_of_all_is_not_scaled():
  """Its standardized value is 0, where the networks have 2 and 0."""
  state = small_state()
  state.target[1]["bias"] = jnp.array([2.0])
  mask = jnp.array([[True, False]])
  bonus, _ = next_bonus(
    state, jnp.array([[[7.0], [jnp.nan]]]), mask, jax.random.key(0)
  )
  np.testing.assert_allclose(bonus, [[4, 0]], rtol=1e-6)


def test_networks_of_the_released_code():
  """Layers of 64 units, 32 outputs, orthogonal kernels of gain sqrt(2)."""
  state = novelty_bonus.init(jax.random.key(0), 3)
  assert state.observations.mean.shape == (3,)
  for network, widths in (
    (state.target, (3, 64, 32)),
    (state.predictor, (3, 64, 64, 32)),
  ):
    shapes = [layer["kernel"].shape for layer in network]
    assert shapes == [*itertools.pairwise(widths)]
    for layer in network:
      kernel = np.asarray(layer["kernel"])
      gram = kernel @ kernel.T if kernel.shape[0] == 3 else kernel.T @ kernel
      np.testing.assert_allclose(gram, 2 * np.eye(len(gram)), atol=1e-5)
      assert not layer["bias"].any()


def test_the_width_of_the_states_is_checked():
  rollout = worked_example.rollout(
    np.zeros(2), [1, 2], extras={"old/hidden": np.zeros((1, 2, 2, 3))}
  )
  t = rewards.get("novelty_bonus", size=2)
  with pytest.raises(ValueError, match=r"size = 2 must be the width .* 3"):
    jax.jit(t.apply)(None, rollout, t.init())


@pytest.mark.worked_example("reward:novelty_bonus")
def test_novelty_within_right_and_within_wrong_answers(monkeypatch):
  """Mean states 4, 1, 3 of right samples and 5, 2 of wrong ones."""
  shares = []

  def bernoulli(key, p, shape):
    shares.append(p)
    return jnp.ones(shape, bool)

  monkeypatch.setattr(jax.random, "bernoulli", bernoulli)
  nan = np.nan
  states = np.array([[6, 2, nan], [1, nan, nan], [1, 5, 3], [5, nan, nan]])
  states = np.array([*states, [2, 1, 3], [nan] * 3])[None, ..., None]
  rollout = worked_example.rollout(
    np.zeros(6),
    [2, 1, 3, 1, 3, 1],
    correct=[1, 1, 1, 0, -1, 1],
    sample_mask=jnp.arange(6)[None] < 5,
    extras={"old/hidden": states},
  )
  t = rewards.get("novelty_bonus", size=1)
  value, state = jax.jit(t.apply)(None, rollout, small_state())
  # Standardized means 1/s, -2/s, 0, 2/s and -1/s with mean 3 and s^2 = 2:
  # errors 1/2, 0, 0, 2 and 0. Right: 0.95 + 0.1 u; wrong: -0.05 + 0.1 u.
  expected = [[1.05, 0.95, 0.95, 0.05, -0.05, 0]]
  np.testing.assert_allclose(value, expected, atol=1e-5)
  np.testing.assert_allclose(state.observations.mean, [3], rtol=1e-6)
  # A quarter of the samples is trained on, with the learning rate 1e-4.
  assert shares == [0.25]
  slopes = [layer["kernel"].item() for layer in state.predictor]
  np.testing.assert_allclose(slopes, np.array([1, 1, 2]) - 1e-4, rtol=1e-6)
  jax.tree.map(
    np.testing.assert_array_equal,
    t.init(),
    novelty_bonus.init(jax.random.key(0), 1),
  )
