"""Tests of `rewards.hidden_states.novelty_bonus`."""

import jax
import jax.numpy as jnp
import numpy as np

from rewards.hidden_states import novelty_bonus

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
  bonus, _ = novelty_bonus.next_bonus(
    state,
    jnp.asarray(np.concatenate([batch, other]), jnp.float32),
    jnp.ones((32, 1), bool),
    jax.random.key(1),
  )
  assert bonus[16:].min() > 5 * bonus[:16].max()


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
  args = jnp.asarray(mask), jax.random.key(1)
  clean = novelty_bonus.next_bonus(state, jnp.asarray(batch), *args, share=1.0)
  dirty = np.where(mask[..., None], batch, np.nan)
  again = novelty_bonus.next_bonus(state, jnp.asarray(dirty), *args, share=1.0)
  jax.tree.map(np.testing.assert_array_equal, again, clean)
  assert not clean[0][~mask].any()
  nobody = jnp.zeros_like(args[0])
  bonus, same = novelty_bonus.next_bonus(
    state, jnp.asarray(dirty), nobody, args[1]
  )
  assert not bonus.any()
  jax.tree.map(np.testing.assert_array_equal, same, state)
