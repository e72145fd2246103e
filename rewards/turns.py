"""Rewards of turns and steps: what each brought towards the end.

`shape_by_potential` and `information_gain` telescope: what the steps collect is
what the last state is worth less the first, however many steps lie between. A
step that leads back to where it came from earns nothing, so they cannot be
farmed by going in circles.

Usage, `before` [P, S, K] of `likelihood.mean_log_probability`:
  rewards = turns.information_gain(jnp.exp(before), turn_mask, scores)
  normalized = turns.normalize_in_group(rewards, turn_mask)
  returns = credit.returns_to_go(normalized, turn_mask)
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rewards import places
from rewards.inputs import is_right, present
from rl import masked

Array = jax.Array


def shape_by_potential(
  rewards: Array,
  potentials: Array,
  mask: Array,
  gamma: float = 1.0,
  terminal: Array | float = 0.0,
) -> Array:
  """r'_k = r_k + gamma Phi(s_{k+1}) - Phi(s_k), Phi(terminal) after the last.

  The discounted sum moves by gamma^K Phi(terminal) - Phi(s_0). With a terminal
  potential of 0, for truncated samples too, and gamma 1 it moves by -Phi of the
  prompt, the same for all samples of a group: no optimum changes, and a group's
  baseline removes it. A potential that depends on more than the prefix changes
  optima.

  Source: Ng, Harada & Russell 1999, Policy Invariance under Reward
  Transformations.

  Args:
    rewards: `[..., K]`, over steps or tokens.
    potentials: `[..., K]` Phi before each of them.
    mask: `[..., K]` bool, which exist; others are skipped.
    gamma: discount per entry.
    terminal: Phi after the last, broadcast to `[...]`.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  potentials = jnp.asarray(potentials, jnp.float32)
  at, linked = places.following(mask)
  end = jnp.asarray(terminal, jnp.float32)[..., None]
  # Read where it exists, from the array itself: five times as fast as from what
  # `present` makes of it.
  after = jnp.take_along_axis(potentials, at, -1, mode="promise_in_bounds")
  after = jnp.where(linked, after, end)
  shaped = jnp.asarray(rewards, jnp.float32) + gamma * after - potentials
  return present(shaped, mask)


def _next(x: Array) -> Array:
  """The next entry on the last axis; 0 or False after the last."""
  return jnp.concatenate([x[..., 1:], jnp.zeros_like(x[..., :1])], -1)


def information_gain(before: Array, mask: Array, outcomes: Array) -> Array:
  """What a turn adds to the probability of the answer; the outcome at the end.

  r_k = p_{k+1} - p_k for all turns but the last, p_k the probability of the
  reference answer before turn k (its mean log-probability, exponentiated); the
  last turn gets the outcome. Without the outcome the sum is the last p less the
  first. Where a turn was not scored, repeat the value before it: gain 0.

  Source: Wang et al. 2025, Information Gain-based Policy Optimization (IGPO).
  In its code an answer in a wrong format has the outcome -2.

  Args:
    before: `[..., K]` p, one teacher-forced pass before each turn.
    mask: `[..., K]` bool, turns that exist, the first n.
    outcomes: `[...]` of the answer, F1 in the paper.

  Returns:
    `[..., K]` float32, 0 where masked; one turn alone gets the outcome.
  """
  before = present(before, mask)
  outcome = jnp.asarray(outcomes, jnp.float32)[..., None]
  gain = jnp.where(_next(mask), _next(before) - before, outcome)
  return jnp.where(mask, gain, 0.0)


def normalize_in_group(rewards: Array, mask: Array, eps: float = 1e-6) -> Array:
  """z-score over all turns of all samples of a group, (r - mean) / (std + eps).

  Then sum what is still to come (`credit.returns_to_go`): the advantage of IGPO,
  and of process-supervised GRPO. No variance: all 0.

  Source: Wang et al. 2025 (IGPO); Shao et al. 2024, DeepSeekMath.

  Args:
    rewards: `[..., S, K]`.
    mask: `[..., S, K]` bool, turns that exist.
    eps: added to the standard deviation (ddof 0).

  Returns:
    `[..., S, K]` float32, 0 where masked.
  """
  axes = (-2, -1)
  rewards = present(rewards, mask)
  varied = ~masked.is_constant(rewards, mask, axes, keepdims=True)
  spread = masked.std(rewards, mask, axes, keepdims=True)
  centered = rewards - masked.mean(rewards, mask, axes, keepdims=True)
  return jnp.where(mask & varied, centered / (spread + eps), 0.0)


def outcome_centered(
  turn_scores: Array,
  mask: Array,
  outcomes: Array,
  beta: float = 1.0,
  judged: Array | None = None,
) -> Array:
  """p^_k = p_k + o - beta before the last turn, o on the last (ReNorm).

  With beta 1 a right answer keeps its turns' scores and a wrong one has them
  less 1, at most 0. A single turn has the outcome alone.

  Source: Hybrid Reward Normalization for Process-supervised Non-verifiable
  Agentic Tasks (PPR), and its code.

  Args:
    turn_scores: `[..., K]` in [0, 1], of a judge.
    mask: `[..., K]` bool, turns that exist, the first n.
    outcomes: `[...]` o in {0, 1}, on the scale of the scores.
    beta: what the outcome has to make up for.
    judged: `[..., K]` bool, where the judge's reply could be read; elsewhere
      p_k = 0. None: everywhere.

  Returns:
    `[..., K]` float32, each to be placed at the end of its turn.
  """
  judged = mask if judged is None else mask & judged
  outcome = jnp.asarray(outcomes, jnp.float32)[..., None]
  shifted = present(turn_scores, judged) + outcome - beta
  rewards = jnp.where(_next(mask), shifted, outcome)
  return jnp.where(mask, rewards, 0.0)


# Verdicts of a critic on steps.


def critique_share(named: Array, parsed: Array) -> Array:
  """The share of the critiques that call a step wrong.

  Args:
    named: `[..., C, K]` bool, critique c names step k.
    parsed: `[..., C]` bool, critiques that could be read; others do not vote.

  Returns:
    `[..., K]` float32 in [0, 1], 0 where no critique could be read.
  """
  voting = jnp.broadcast_to(parsed[..., None], named.shape)
  return masked.mean(present(named, voting), voting, axis=-2)


# How a share of critiques becomes an error in [0, 1]; the sets of steps are
# nested, intersection <= majority <= union.
VOTES: dict[str, Callable[[Array], Array]] = {
  "intersection": lambda share: (share >= 1.0).astype(jnp.float32),
  "majority": lambda share: (share >= 0.5).astype(jnp.float32),
  "union": lambda share: (share > 0.0).astype(jnp.float32),
  "average": lambda share: share,
}


def outcome_minus_errors(
  correct: Array,
  errors: Array,
  step_ids: Array,
  outcome_weight: float = 2.0,
  process_weight: float = 1.0,
) -> Array:
  """R_t = w_o 1[right] - w_p e(step of t): a finished reward at every token.

  The weights make right answers with flaws (+1) better than wrong ones without
  (0). Normalise over the group's tokens (`normalize_in_group`) and do not sum
  what is to come. With process_weight 0, and samples of one length, it is GRPO.

  Source: Xie et al. 2025, CAPO: Towards Enhancing LLM Reasoning through
  Verifiable Generative Credit Assignment. The paper's normaliser is not known
  to us.

  Args:
    correct: `[...]` verdicts, 1 right.
    errors: `[..., K]` in [0, 1], of `VOTES[...]` on `critique_share`.
    step_ids: `[..., T]` int, step of each token, -1 outside.
    outcome_weight, process_weight: the paper's 2 and 1.

  Returns:
    `[..., T]` float32, 0 outside steps.
  """
  inside = step_ids >= 0
  at = jnp.clip(step_ids, 0, errors.shape[-1] - 1)
  charged = present(jnp.take_along_axis(errors, at, -1), inside)
  outcome = outcome_weight * is_right(correct).astype(jnp.float32)
  return jnp.where(inside, outcome[..., None] - process_weight * charged, 0.0)


# Learned attribution.


def attribution_loss(
  contributions: Array, mask: Array, outcomes: Array
) -> Array:
  """(sum_k c_k - R)^2: an estimator of turns' contributions to the outcome.

  Where outcomes are sums of what the turns bring, and turns vary independently,
  its minimum is what each brings.

  Source: Wang et al. 2025, SPA-RL: Reinforcing LLM Agents via Stepwise Progress
  Attribution.

  Args:
    contributions: `[..., K]` c, of a head at each turn's last token.
    mask: `[..., K]` bool, turns that exist.
    outcomes: `[...]` R.

  Returns:
    `[...]` float32.
  """
  total = masked.sum(present(contributions, mask), mask)
  return (total - jnp.asarray(outcomes, jnp.float32)) ** 2


def attributed(
  contributions: Array,
  grounded: Array,
  mask: Array,
  alpha: float = 1.0,
  beta: float = 0.5,
) -> Array:
  """r_k = alpha c_k + beta 1[the environment accepted the action].

  Its weakness: accepted actions pay for themselves, so many idle ones collect
  beta each.

  Source: Wang et al. 2025 (SPA-RL): 0.5 in its code; alpha is our 1. Deviation:
  the released data script overwrites c_k, which is not repeated here.

  Args:
    contributions: `[..., K]` c.
    grounded: `[..., K]` bool.
    mask: `[..., K]` bool, turns that exist.
    alpha, beta: weights.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  accepted = present(grounded, mask)
  return alpha * present(contributions, mask) + beta * accepted
