"""Implicit rewards: a language model read as a reward model of every token.

A model phi is trained so that its log-ratio to a reference policy,

  r(y) = beta sum_t q_t,  q_t = log phi(y_t | y_<t) - log ref(y_t | y_<t),

tells right answers from wrong ones. It then also scores every prefix, without a
label of any step. If phi is proportional to ref exp(R / beta), then

  beta sum_{u <= t} q_u = V(y_<=t) - V(),  V = beta log E_ref[e^{R/beta} | .],

the soft value of the prefix minus that of the prompt: q is the difference of a
potential.
Source: Yuan et al. 2024, Free Process Rewards without Process Labels; Cui et
al. 2025, Process Reinforcement through Implicit Rewards (PRIME).

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import credit, masked, metrics, registry, scoring, types
from rl.losses.terms import term
from rl.transforms import Transform, log_ratios, sample_ends, transform

Array = jax.Array
BASELINES = ("released", "paper")
# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
_POLICY = scoring.Need("policy", scoring.log_probs)
# A need: log-probs [P, S, T] of the reference policy.
_REFERENCE = scoring.Need("ref", scoring.log_probs)


# Rewards.


def implicit_rewards() -> Transform:
  """q_t = log pi_prm - log pi_ref of each scored token, in nats.

  The reward in units of the outcome is beta q. The normalisation of PRIME
  cancels beta, up to its epsilon.
  """
  return log_ratios("prm", "ref")


@transform(takes="token")
def all_but_last(signal: Array, rollout: types.Rollout) -> Array:
  """The rewards, with 0 at the last scored token of each sample."""
  return jnp.where(sample_ends(rollout), 0.0, signal)


@transform(takes="token")
def divide_by_largest_return(signal: Array, rollout: types.Rollout) -> Array:
  """r_t / (max over the batch's tokens of |sum_{u >= t} r_u| + 1e-6).

  Returns then lie in [-1, 1] for any scale of r. The maximum is over the whole
  batch, which a transform sees and a loss of microbatches does not.
  Source: PRIME's released code ("batch_norm").
  """
  valid = rollout.valid("token")
  returns = credit.returns_to_go(signal, valid)
  return jnp.where(valid, signal, 0.0) / (jnp.abs(returns).max() + 1e-6)


def leave_one_out_tokens(
  rewards: Array, mask: Array, form: str = "released"
) -> Array:
  """Token rewards minus the mean reward per token of the other samples.

    paper     r_it - mean_{j != i} m_j,  m_j = mean_t r_jt
    released  n/(n-1) r_it - sum_j m_j / (n-1), which is the paper's plus
              (r_it - m_i) / (n - 1)

  Both have the same sum over a sample. If all tokens of a sample have the same
  reward, both are `leave_one_out` of that reward.
  Source: Cui et al. 2025 (PRIME), its text and its code.

  Args:
    rewards: `[..., S, T]`.
    mask: `[..., S, T]` bool, tokens of the samples that exist.
    form: "released" or "paper".

  Returns:
    `[..., S, T]`, 0 where masked and where no other sample has a token.

  Raises:
    ValueError: if the form is unknown.
  """
  if form not in BASELINES:
    raise ValueError(registry.describe_unknown("form", form, BASELINES))
  members = mask.any(-1)  # [..., S]
  others = masked.count(members, keepdims=True) - 1.0
  means = masked.mean(rewards, mask)  # [..., S]
  total = masked.sum(means, members, keepdims=True)
  num_others = jnp.maximum(others, 1.0)[..., None]  # [..., 1, 1]
  centered = rewards - (total - means)[..., None] / num_others
  if form == "released":
    centered += (rewards - means[..., None]) / num_others
  return jnp.where(mask & (others > 0)[..., None], centered, 0.0)


@transform(takes="token")
def minus_others_token_mean(
  signal: Array, rollout: types.Rollout, *, form: str = "released"
) -> Array:
  """The function `leave_one_out_tokens` within each group."""
  return leave_one_out_tokens(signal, rollout.valid("token"), form)


# Training the reward model on outcomes.


@term(takes="none", gives="sample", needs={_POLICY, _REFERENCE})
def implicit_cross_entropy(
  _, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> tuple[Array, dict[str, Array]]:
  """-[y log sigma(r) + (1 - y) log(1 - sigma(r))], r = beta sum_t q_t.

  y [P, S] is the verdict and sigma the sigmoid. Give the term
  `loss_filter=only(known_verdict)`, as otherwise an unknown verdict counts as
  wrong. The policy of this term is the reward model; at the reference r = 0 and
  the loss is log 2. Logged: `pair_accuracy`, see the function of this name.
  Source: Yuan et al. 2024; the pair accuracy: PRIME's released code.
  """
  q = policy[scoring.log_probs] - rollout.extras[_REFERENCE]
  r = beta * masked.sum(q.astype(jnp.float32), rollout.mask)  # [P, S]
  y = (rollout.correct == 1).astype(jnp.float32)
  accuracy = pair_accuracy(jax.lax.stop_gradient(r), y, rollout.mask.any(-1))
  # The formula of the docstring, without overflow.
  return jax.nn.softplus(r) - y * r, {"pair_accuracy": accuracy}


def pair_accuracy(scores: Array, right: Array, valid: Array) -> Array:
  """Share of a group's pairs of a right and a wrong sample in that order.

  Args:
    scores: `[P, S]`.
    right: `[P, S]` bool or 0/1.
    valid: `[P, S]` bool.

  Returns:
    `[P]` share of pairs in which the right sample has the higher score; ties
      count 1/2, and a group that lacks right or wrong samples has 1/2.
  """
  accuracy = jax.vmap(metrics.auc)(scores, right, valid)
  mixed = (valid & (right > 0)).any(-1) & (valid & (right <= 0)).any(-1)
  return jnp.where(mixed, accuracy, 0.5)
