"""Implicit rewards: a language model read as a reward model of every token.

A model phi is trained so that its log-ratio to a reference policy ref,

  r(y) = beta sum_t q_t,  q_t = log phi(y_t | y_<t) - log ref(y_t | y_<t),

is high for right answers y and low for wrong ones. q_t then is a reward of
token t, which no label of a step was needed for. If phi is proportional to ref
exp(R / beta), with R the outcome reward and beta a temperature, then

  beta sum_{u <= t} q_u = V(y_<=t) - V(),
  V(x) = beta log E_ref[e^{R/beta} | x],

the soft value V of the prefix up to token t minus that of the prompt alone.
Thus q is a difference of a potential.
Source: Yuan et al. 2024, Free Process Rewards without Process Labels; Cui et
al. 2025, Process Reinforcement through Implicit Rewards (PRIME).

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, credit, masked, metrics, registry, scoring, types
from rl.losses.terms import term
from rl.transforms import Transform, log_ratios, sample_ends, transform

Array = jax.Array
BASELINES = ("released", "paper")  # forms of `leave_one_out_tokens`
# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
_POLICY = scoring.Need("policy", scoring.log_probs)
# A need: log-probs [P, S, T] of the reference policy.
_REFERENCE = scoring.Need("ref", scoring.log_probs)


# Rewards.


def implicit_rewards() -> Transform:
  """Returns q_t = log pi_prm - log pi_ref of each scored token, in nats.

  "prm" is the parameter set of the process reward model, and "ref" that of the
  policy at the start of the run. The reward in units of the outcome would be
  beta q; `divide_by_largest_return` cancels beta, up to its 1e-6.
  """
  return log_ratios("prm", "ref")


@transform(takes="token")
def all_but_last(signal: Array, rollout: types.Rollout) -> Array:
  """Returns the rewards, with 0 at the last scored token of each sample."""
  return jnp.where(sample_ends(rollout), 0.0, signal)


@transform(takes="token")
def divide_by_largest_return(signal: Array, rollout: types.Rollout) -> Array:
  """Returns r_t / (max over the batch's tokens of |sum_{u >= t} r_u| + 1e-6).

  Returns then lie in [-1, 1] for any scale of the rewards r. It must be a
  transform, as the maximum is over the whole batch: a term of the loss sees one
  microbatch only.
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

  r_it is the reward of token t of sample i, m_j the mean over the tokens of
  sample j, and n the number of samples of the group that have a token. Both
  forms have the same sum over the tokens of a sample. If all tokens of each
  sample have the same reward, both are `leave_one_out` of that reward.
  Source: Cui et al. 2025 (PRIME), its text and its code.

  Args:
    rewards: `[..., S, T]`.
    mask: `[..., S, T]` bool, tokens of the samples that exist.
    form: "released" or "paper".

  Returns:
    `[..., S, T]`, 0 where masked and where no other sample has a token.

  Raises:
    UsageError: if the form is unknown.
  """
  if form not in BASELINES:
    raise UsageError(registry.describe_unknown("form", form, BASELINES))
  members = mask.any(-1)  # [..., S]
  num_others = masked.count(members, keepdims=True) - 1.0  # [..., 1]
  means = masked.mean(rewards, mask)  # [..., S]
  total = masked.sum(means, members, keepdims=True)
  divisor = jnp.maximum(num_others, 1.0)[..., None]  # [..., 1, 1]
  centered = rewards - (total - means)[..., None] / divisor
  if form == "released":
    centered += (rewards - means[..., None]) / divisor
  return jnp.where(mask & (num_others > 0)[..., None], centered, 0.0)


@transform(takes="token")
def minus_others_token_mean(
  signal: Array, rollout: types.Rollout, *, form: str = "released"
) -> Array:
  """Returns `leave_one_out_tokens` of the rewards of each group."""
  return leave_one_out_tokens(signal, rollout.valid("token"), form)


# Loss of the reward model, from outcomes.


@term(takes="none", gives="sample", needs={_POLICY, _REFERENCE})
def implicit_cross_entropy(
  _, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> tuple[Array, dict[str, Array]]:
  """-[y log sigma(r) + (1 - y) log(1 - sigma(r))], r = beta sum_t q_t.

  y [P, S] is 1 if the verdict is right, else 0, and sigma is the sigmoid. An
  unknown verdict would count as wrong: give the term
  `loss_filter=only(known_verdict)`. The policy of this term is the reward
  model; as long as it equals the reference, r = 0 and the loss is log 2. Logs
  `pair_accuracy`, the mean of the function of this name over prompts.
  Source: Yuan et al. 2024; the pair accuracy: PRIME's released code.
  """
  q = policy[scoring.log_probs] - rollout.extras[_REFERENCE]
  r = beta * masked.sum(q.astype(jnp.float32), rollout.mask)  # [P, S]
  y = (rollout.correct == 1).astype(jnp.float32)
  accuracy = pair_accuracy(jax.lax.stop_gradient(r), y, rollout.mask.any(-1))
  # The formula of the docstring, without overflow.
  return jax.nn.softplus(r) - y * r, {"pair_accuracy": accuracy}


def pair_accuracy(scores: Array, right: Array, valid: Array) -> Array:
  """Returns the share of a group's pairs that the scores order correctly.

  A pair is a right and a wrong sample of the group.

  Args:
    scores: `[P, S]`.
    right: `[P, S]` bool or 0/1, the right samples.
    valid: `[P, S]` bool, samples that count.

  Returns:
    `[P]`, the share of pairs in which the right sample has the higher score;
    ties count 1/2. A group without right or without wrong samples has 1/2.
  """
  accuracy = jax.vmap(metrics.auc)(scores, right, valid)
  mixed = (valid & (right > 0)).any(-1) & (valid & (right <= 0)).any(-1)
  return jnp.where(mixed, accuracy, 0.5)
