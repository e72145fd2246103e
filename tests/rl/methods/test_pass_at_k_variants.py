"""The advantages of Pass@k Training: exceeding, combined and adaptive."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy

from rl import methods, scoring, types

ENTROPY = scoring.Need("old", scoring.entropy)
close = functools.partial(np.testing.assert_allclose, atol=2e-5, rtol=0)


def group(scores, entropy=None):
  """`[P, S]` scores of samples of two tokens, with their entropies."""
  scores = jnp.asarray(scores, jnp.float32)
  p, s = scores.shape
  base = tabular_policy.rollout(p=p, s=s, t=2, k=1, ragged=False)
  extras = {} if entropy is None else {str(ENTROPY): jnp.asarray(entropy)}
  return base.replace(
    scores=scores,
    tokens=base.tokens.replace(mask=jnp.ones((p, s, 2), bool)),
    extras=types.Named(extras),
  )


@functools.cache
def compiled(name, hyper):
  t = methods.get(name, **dict(hyper)).advantage
  return jax.jit(lambda r: t.apply(None, r, t.init())[0])


def advantages(name, rollout, **hyper):
  return np.asarray(compiled(name, tuple(sorted(hyper.items())))(rollout))


def by_difficulty(n):
  """One group for each number of right samples, 0..n."""
  return group(np.arange(n) < np.arange(n + 1)[:, None])


# Exceeding.


@pytest.mark.parametrize("k", [1, 4, 8])
def test_exceeding_is_pass_at_k_times_the_papers_function(k):
  rollout = by_difficulty(16)
  got = advantages("pass_at_k_exceeding", rollout, k=k)
  base = advantages("pass_at_k", rollout, k=k)
  for c in range(1, 17):
    close(got[c], 4 / (10 * math.log(c + 0.5)) * base[c])
  assert not got[0].any()


@pytest.mark.parametrize(("k", "peak"), [(1, 16), (4, 8), (8, 4)])
def test_it_moves_the_most_effort_to_one_right_sample_of_32(k, peak):
  """In the paper: 50 % for pass@1, 25 % for pass@4, then 1 of 32."""
  rollout = by_difficulty(32)
  effort = np.abs(advantages("pass_at_k", rollout, k=k)).sum(-1)
  assert np.argmax(effort) == peak
  effort = np.abs(advantages("pass_at_k_exceeding", rollout, k=k)).sum(-1)
  assert np.argmax(effort) == 1


def test_exceeding_never_turns_a_sign():
  """Graded scores may sum to less than 1/2, where the log changes its sign."""
  rollout = group([[0.0, 0.1, 0.05, 0.2], [0.0, 0.0, 0.3, 0.0]])
  got = advantages("pass_at_k_exceeding", rollout, k=2)
  base = advantages("pass_at_k", rollout, k=2)
  close(got, 4 / (10 * math.log(1.5)) * base)


# Combination.


@pytest.mark.parametrize(
  ("scores", "want"),
  [
    # 1/2 (.4472) + 1/2 (1)
    ([1, 0, 0, 1], [0.723607, -0.723607, -0.723607, 0.723607]),
    # 1/4 (-1/3, 1) + 3/4 (-1/sqrt 3, sqrt 3)
    ([0, 0, 0, 1], [-0.516346] * 3 + [1.549038]),
    # Saturated for k = 2: 1/4 of (1/sqrt 3, -sqrt 3) is left.
    ([1, 1, 1, 0], [0.144338] * 3 + [-0.433013]),
    ([1, 1, 1, 1], [0] * 4),
    ([0, 0, 0, 0], [0] * 4),
  ],
)
def test_combination_worked_by_hand(scores, want):
  close(advantages("pass_at_k_combination", group([scores]), k=2)[0], want)


def never(accuracy):
  return jnp.zeros_like(accuracy)


def always(accuracy):
  return jnp.ones_like(accuracy)


def test_the_ends_of_a_blend_are_pass_at_1_and_pass_at_k():
  rollout = tabular_policy.rollout()
  one, many = (advantages("pass_at_k", rollout, k=k) for k in (1, 3))
  name = "pass_at_k_combination"
  close(advantages(name, rollout, k=3, blend=never), one)
  close(advantages(name, rollout, k=3, blend=always), many)
  close(advantages(name, rollout, k=1), one)
  close(one, advantages("grpo", rollout, ddof=0, eps=0.0))
  assert "blend=never" in str(methods.get(name, blend=never))


def test_combination_keeps_the_pace_of_hard_prompts_and_the_ease_of_easy_ones():
  """Sum |A| is nearer to pass@1's below one half, and to pass@k's above."""
  rollout = by_difficulty(16)
  one, many, both = (
    np.abs(advantages(name, rollout, **hyper)).sum(-1)
    for name, hyper in (
      ("pass_at_k", {"k": 1}),
      ("pass_at_k", {"k": 4}),
      ("pass_at_k_combination", {"k": 4}),
    )
  )
  close(both - many, (1 - np.arange(17) / 16) * (one - many), atol=1e-4)


# Adaptive.

SCORES = [[1, 0, 0, 1], [0, 0, 0, 1], [1, 0, 1, 1], [1, 0, 0, 0]]
LEVELS = np.array([0.3, 2.0, 0.1, 0.7])


def with_entropies(levels, scores=SCORES):
  """The mean over a prompt is its level; those of samples and tokens differ."""
  spread = np.linspace(-0.05, 0.05, 8).reshape(4, 2)
  return group(scores, np.asarray(levels)[:, None, None] + spread)


@pytest.mark.parametrize(
  ("exploit", "exploring"),
  [
    (0.0, []),
    (0.25, [1]),
    (0.49, [1]),
    (0.5, [1, 3]),
    (0.75, [0, 1, 3]),
    (1.0, [0, 1, 2, 3]),
  ],
)
def test_the_prompts_of_highest_entropy_learn_by_pass_at_1(exploit, exploring):
  rollout = with_entropies(LEVELS)
  got = advantages("pass_at_k_adaptive", rollout, k=2, exploit=exploit)
  one, many = (advantages("pass_at_k", rollout, k=k) for k in (1, 2))
  wide = np.isin(np.arange(4), exploring)[:, None]
  close(got, np.where(wide, one, many))


def test_a_share_that_float32_falls_short_of():
  """.53 of 100 prompts are 53, though .53 is a little less in float32."""
  rollout = with_entropies(np.linspace(0, 1, 100), SCORES[1:2] * 100)
  got = advantages("pass_at_k_adaptive", rollout, k=2, exploit=0.53)
  one = advantages("pass_at_k", rollout, k=1)
  assert np.isclose(got, one).all(-1).sum() == 53


def test_prompts_of_one_entropy_are_treated_alike():
  rollout = with_entropies(np.full(4, 0.5))
  got = advantages("pass_at_k_adaptive", rollout, k=2)
  close(got, advantages("pass_at_k", rollout, k=2))


def test_a_prompt_without_samples_is_not_ranked():
  """Entropies of masked tokens are not read either."""
  rollout = with_entropies([0.3, 2.0, np.nan, 0.7])
  real = jnp.array([True, True, False, True])[:, None]
  rollout = rollout.replace(sample_mask=rollout.sample_mask & real)
  got = advantages("pass_at_k_adaptive", rollout, k=2)
  one, many = (advantages("pass_at_k", rollout, k=k) for k in (1, 2))
  close(got[[0, 1, 3]], [many[0], one[1], many[3]])
  assert not got[2].any()


def test_adaptive_with_k_1_is_pass_at_1_whatever_the_entropies():
  rollout = with_entropies(LEVELS)
  got = advantages("pass_at_k_adaptive", rollout, k=1)
  np.testing.assert_array_equal(got, advantages("pass_at_k", rollout, k=1))


@pytest.mark.parametrize(("share", "nearest"), [(1.5, "1"), (-1.0, "0")])
def test_a_share_that_is_none_is_refused(share, nearest):
  with pytest.raises(ValueError, match=f"from 0 to 1; .* is {nearest}$"):
    methods.get("pass_at_k_adaptive", exploit=share)
