"""Credit and advantages against worked examples, loops and limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl import advantages, credit, masked

credit = compiled.functions(credit)

min_form = jax.jit(credit.min_form_rewards, static_argnums=2)
returns_to_go = jax.jit(credit.returns_to_go, static_argnums=(2, 3))
gae = jax.jit(credit.gae)

# The worked example of PURE: three samples of 3, 2 and 4 steps.
STEP_SCORES = np.array(
  [[0.9, 0.2, 0.7, 0], [0.8, 0.6, 0, 0], [-0.5, 0.9, 0.9, 0.9]], np.float32
)
STEP_MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], bool)


def test_min_form_of_the_worked_example():
  got = min_form(STEP_SCORES, STEP_MASK, 0.1)
  want = [
    [0.000814, 0.198482, 0.004681, 0],
    [0.095362, 0.528478, 0, 0],
    [-0.499999, 0.000001, 0.000001, 0.000001],
  ]
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_min_form_lies_between_the_minimum_and_the_mean_and_reaches_both():
  rng = np.random.default_rng(0)
  scores = rng.uniform(-1, 1, (50, 6)).astype(np.float32)
  mask = np.arange(6) < rng.integers(1, 7, 50)[:, None]
  low = np.where(mask, scores, np.inf).min(-1)
  mean = np.where(mask, scores, 0).sum(-1) / mask.sum(-1)
  total = np.asarray(min_form(scores, mask, 0.1)).sum(-1)
  assert (total >= low - 1e-6).all()
  assert (total <= mean + 1e-6).all()
  cold, hot = (
    np.asarray(min_form(scores, mask, t)).sum(-1) for t in (1e-4, 1e5)
  )
  np.testing.assert_allclose(cold, low, atol=1e-5)
  np.testing.assert_allclose(hot, mean, atol=1e-4)


@pytest.mark.parametrize("temperature", [np.inf, 1e308, 1e39, 1e38])
def test_infinite_temperature_shares_the_mean_among_the_steps_that_exist(
  temperature,
):
  scores = np.where(STEP_MASK, STEP_SCORES, np.nan)
  expected = np.where(STEP_MASK, STEP_SCORES, 0) / [[3], [2], [4]]
  actual = min_form(scores, STEP_MASK, temperature)
  np.testing.assert_allclose(actual, expected, rtol=1e-6)
  hole = np.array([[1, 0, 1, 0]], bool)
  actual = min_form(scores[:1], hole, temperature)
  np.testing.assert_allclose(actual, [[0.45, 0, 0.35, 0]], rtol=1e-6)


@pytest.mark.parametrize("temperature", [1e-38, 1e-45, 5e-324])
def test_temperatures_that_float32_rounds_to_0_give_the_minimum(temperature):
  expected = [[0, 0.2, 0, 0], [0, 0.6, 0, 0], [-0.5, 0, 0, 0]]
  actual = min_form(STEP_SCORES, STEP_MASK, temperature)
  np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize(
  ("temperature", "expected"),
  [
    (np.inf, [0.5, 0.5]),
    # w_k (1 - (s_k - sum of w s) / temperature), with w_1 / w_0 = exp(-1).
    (0.4, [0.7310586 * (1 + 0.2689414), 0.2689414 * (1 - 0.7310586)]),
    (1e-45, [1.0, 0.0]),
  ],
)
def test_gradient_of_the_soft_minimum(temperature, expected):
  scores = np.full((2, 3), np.nan, np.float32)
  scores[0, :2] = 0.2, 0.6
  mask = np.array([[1, 1, 0], [0, 0, 0]], bool)
  rewards = min_form(scores, mask, temperature)
  np.testing.assert_array_equal(rewards[:, 2], [0, 0])
  np.testing.assert_array_equal(rewards[1], [0, 0, 0])
  slopes = jax.grad(lambda s: min_form(s, mask, temperature).sum())(scores)
  np.testing.assert_allclose(slopes, [[*expected, 0], [0, 0, 0]], atol=1e-6)


def test_min_form_shifts_with_its_scores_and_ignores_masked_ones():
  shifted = min_form(STEP_SCORES + 0.1, STEP_MASK, 0.1)
  unshifted = min_form(STEP_SCORES, STEP_MASK, 0.1)
  np.testing.assert_allclose(
    shifted.sum(-1), unshifted.sum(-1) + 0.1, atol=1e-6
  )
  garbage = np.where(STEP_MASK, STEP_SCORES, np.nan)
  np.testing.assert_array_equal(min_form(garbage, STEP_MASK, 0.1), unshifted)


def test_min_form_of_one_step_is_that_step_and_of_none_is_nothing():
  one = min_form(np.array([[0.3, 9.0]], np.float32), np.array([[1, 0]], bool))
  np.testing.assert_allclose(one, [[0.3, 0]], atol=1e-7)
  none = min_form(np.full((1, 3), 5.0, np.float32), np.zeros((1, 3), bool))
  np.testing.assert_array_equal(none, np.zeros((1, 3)))


def test_the_padding_hack_pays_under_sum_form_and_not_under_min_form():
  """Appending passable steps to a sample with one bad step."""
  short = np.array([[-0.5, 0.9, 0, 0]], np.float32)
  long = np.array([[-0.5, 0.9, 0.9, 0.9]], np.float32)
  mask = np.array([[1, 1, 0, 0]], bool)
  every = np.ones((1, 4), bool)
  assert returns_to_go(long, every)[0, 0] > returns_to_go(short, mask)[0, 0] + 1
  gain = min_form(long, every).sum() - min_form(short, mask).sum()
  assert abs(gain) < 1e-5


def by_loop(rewards, mask, gamma, reduce):
  out = np.zeros_like(rewards)
  for row in np.ndindex(rewards.shape[:-1]):
    run = 0.0 if reduce == "sum" else np.inf
    for t in reversed(range(rewards.shape[-1])):
      if mask[(*row, t)]:
        r = rewards[(*row, t)]
        run = r + gamma * run if reduce == "sum" else min(r, run)
        out[(*row, t)] = run
  return out


@pytest.mark.parametrize(
  ("gamma", "reduce"), [(1.0, "sum"), (0.9, "sum"), (0.0, "sum"), (1.0, "min")]
)
def test_returns_skip_masked_entries(gamma, reduce):
  rng = np.random.default_rng(1)
  rewards = rng.normal(size=(4, 3, 11)).astype(np.float32)
  mask = rng.random((4, 3, 11)) < 0.6
  got = returns_to_go(np.where(mask, rewards, np.nan), mask, gamma, reduce)
  want = by_loop(rewards, mask, gamma, reduce)
  np.testing.assert_allclose(got, want, atol=1e-5)


def test_strict_min_form_sees_the_next_minimum_after_the_worst_step():
  got = returns_to_go(STEP_SCORES, STEP_MASK, 1.0, "min")
  np.testing.assert_allclose(got[0, :3], [0.2, 0.2, 0.7])


def gae_by_loop(rewards, values, mask, gamma, lam, segments):
  out = np.zeros_like(rewards)
  for row in np.ndindex(rewards.shape[:-1]):
    value, advantage, segment = 0.0, 0.0, None
    for t in reversed(range(rewards.shape[-1])):
      at = (*row, t)
      if not mask[at]:
        continue
      if segments[at] != segment:
        value, advantage = 0.0, 0.0
      delta = rewards[at] + gamma * value - values[at]
      advantage = delta + gamma * lam[row] * advantage
      value, segment = values[at], segments[at]
      out[at] = advantage
  return out


def test_gae_is_its_recursion_over_valid_tokens_within_segments():
  rng = np.random.default_rng(2)
  shape = (3, 2, 9)
  rewards, values = rng.normal(size=(2, *shape)).astype(np.float32)
  mask = rng.random(shape) < 0.7
  segments = np.sort(rng.integers(0, 3, shape), -1)
  lam = rng.random(shape[:2]).astype(np.float32)
  got = gae(rewards, values, mask, 0.95, lam, segments)
  want = gae_by_loop(rewards, values, mask, 0.95, lam, segments)
  np.testing.assert_allclose(got, want, atol=1e-5)


def test_gae_closed_forms():
  """Numbers and limits of the card: lam = 1 is Monte Carlo, lam = 0 is TD."""
  rewards = np.array([0, 0, 1], np.float32)
  values = np.array([0.5, 0.6, 0.8], np.float32)
  every = np.ones(3, bool)
  close = np.testing.assert_allclose
  close(gae(rewards, values, every), [0.5, 0.4, 0.2], atol=1e-6)
  close(gae(rewards, values, every, 1.0, 0.95), [0.4705, 0.39, 0.2], atol=1e-6)
  close(gae(rewards, values, every, 1.0, 0.0), [0.1, 0.2, 0.2], atol=1e-6)


def test_group_advantages_of_the_cards():
  close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-3)  # noqa: E731
  one, two = jnp.array([1.0, 0, 0, 0]), jnp.array([1.0, 0, 0, 1])
  normalize = advantages.group_normalize
  close(normalize(one, ddof=0), [1.732, -0.577, -0.577, -0.577])
  close(normalize(one), [1.5, -0.5, -0.5, -0.5])
  close(normalize(two), [0.866, -0.866, -0.866, 0.866])
  close(advantages.center(one), [0.75, -0.25, -0.25, -0.25])
  close(advantages.leave_one_out(one), [1, -1 / 3, -1 / 3, -1 / 3])


@pytest.mark.parametrize(
  "baseline",
  [advantages.center, advantages.leave_one_out, advantages.group_normalize],
)
def test_flat_lonely_and_empty_groups_have_exactly_no_advantage(baseline):
  """0.1 has no finite binary form: its float32 mean leaves a residue."""
  scores = jnp.array([[0.1] * 7, [3.0] + [jnp.nan] * 6, [jnp.nan] * 7])
  valid = jnp.array([[True] * 7, [True] + [False] * 6, [False] * 7])
  assert not np.asarray(baseline(scores, valid)).any()


def test_whitened_entries_have_mean_0_and_variance_1():
  rng = np.random.default_rng(3)
  x = jnp.asarray(rng.normal(3, 2, (4, 5, 6)), jnp.float32)
  mask = jnp.asarray(rng.random((4, 5, 6)) < 0.5)
  white = np.asarray(masked.whiten(x, mask, (0, 1, 2)))
  np.testing.assert_allclose(white[mask].mean(), 0, atol=1e-6)
  np.testing.assert_allclose(white[mask].std(), 1, atol=1e-5)
  assert not white[~np.asarray(mask)].any()


def test_masked_statistics_are_those_of_the_entries_that_exist():
  rng = np.random.default_rng(4)
  x = rng.normal(size=(6, 9)).astype(np.float32)
  mask = rng.random((6, 9)) < 0.6
  mask[0] = False
  dirty = jnp.asarray(np.where(mask, x, np.nan))
  m = jnp.asarray(mask)
  for row in range(1, 6):
    real = x[row, mask[row]]
    close = lambda got, want: np.testing.assert_allclose(got, want, rtol=1e-5)  # noqa: E731
    close(masked.mean(dirty, m)[row], real.mean())
    close(masked.std(dirty, m, ddof=1)[row], real.std(ddof=1))
    close(masked.median(dirty, m)[row], np.median(real))
    close(masked.quantile(dirty, m, 0.8)[row], np.quantile(real, 0.8))
    close(masked.quantile(dirty, m, 1)[row], real.max())  # no float, a share
    close(masked.min(dirty, m)[row], real.min())
    close(masked.max(dirty, m)[row], real.max())
  for statistic in (masked.sum, masked.mean, masked.std, masked.median):
    assert statistic(dirty, m)[0] == 0
  assert masked.is_constant(dirty, m)[0]


def test_impossible_settings_are_refused():
  x, m = jnp.ones(3), jnp.ones(3, bool)
  with pytest.raises(ValueError, match="temperature = 0"):
    credit.min_form_rewards(x, m, 0)
  with pytest.raises(ValueError, match=r"'max'.*sum, min"):
    credit.returns_to_go(x, m, reduce="max")
  with pytest.raises(ValueError, match=r"gamma = 0\.9 must be 1"):
    credit.returns_to_go(x, m, 0.9, "min")
  with pytest.raises(ValueError, match="gamma = 7 must be between"):
    credit.returns_to_go(x, m, 7)
  with pytest.raises(ValueError, match=r"quantile = -1\.5 must be"):
    masked.quantile(x, m, -1.5)


def test_defaults_of_the_array_functions():
  """A temperature of 0.1, sums, and no discount."""
  scores, mask = jnp.array([[0.5, 0.4, 0.7]]), jnp.ones((1, 3), bool)
  weights = np.exp([-1.0, 0.0, -3.0])
  close = np.testing.assert_allclose
  close(
    credit.min_form_rewards(scores, mask)[0],
    weights / weights.sum() * [0.5, 0.4, 0.7],
    rtol=1e-5,
  )
  close(credit.returns_to_go(scores, mask), [[1.6, 1.1, 0.7]], rtol=1e-6)
  values = jnp.array([[1.0, 2.0, 4.0]])
  close(credit.gae(scores, values, mask), [[0.6, -0.9, -3.3]], rtol=1e-5)


def test_the_lambda_of_gae_is_one_number_per_sample():
  """Of several prompts and samples; tokens that are skipped hold garbage."""
  rewards = jnp.array([[[1.0, np.nan, 2.0]] * 3] * 2)
  values = jnp.array([[[0.5, np.nan, 4.0]] * 3] * 2)
  mask = ~jnp.isnan(rewards)
  lam = jnp.array([[0.0, 0.25, 0.5], [0.75, 1.0, 0.0]])
  got = credit.gae(rewards, values, mask, 0.5, lam)
  # delta = 1 + 0.5 * 4 - 0.5 = 2.5 and 2 - 4 = -2.
  want = [[[2.5 - lam_ps, 0, -2] for lam_ps in row] for row in lam.tolist()]
  np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_group_of_steps_does_not_depend_on_the_others():
  scores = jnp.array([[[3.0, -1.0]], [[np.nan, 5.0]], [[np.nan, np.nan]]])
  mask = ~jnp.isnan(scores)
  got = credit.min_form_rewards(scores, mask, 2.0)
  w = 1 / (1 + np.exp(-2.0))
  np.testing.assert_allclose(
    got, [[[3 * (1 - w), -w]], [[0, 5]], [[0, 0]]], rtol=1e-5
  )
  lowest = credit.returns_to_go(scores, mask, 1.0, "min")
  np.testing.assert_allclose(lowest, [[[-1, -1]], [[0, 5]], [[0, 0]]])


def test_the_bounds_of_the_discount_are_accepted():
  x, m = jnp.array([1.0, 2.0, 4.0]), jnp.ones(3, bool)
  np.testing.assert_allclose(credit.returns_to_go(x, m, 0), [1, 2, 4])
  np.testing.assert_allclose(credit.returns_to_go(x, m, 1), [7, 6, 4])
  credit.min_form_rewards(x, m, 0.01)
  for gamma in (-0.01, 1.01, float("nan")):
    with pytest.raises(ValueError, match=f"gamma = {gamma} must be between"):
      credit.returns_to_go(x, m, gamma)
  for temperature in (-1.0, float("nan")):
    with pytest.raises(ValueError, match=f"temperature = {temperature} must"):
      credit.min_form_rewards(x, m, temperature)
