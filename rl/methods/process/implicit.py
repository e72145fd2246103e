"""Implicit rewards: a language model read as a reward model of every token.

A model phi that is trained so that its log-ratio to a reference tells right
answers from wrong ones scores every prefix on the way,

  r(y) = beta sum_t q_t,  q_t = log phi(y_t | y_<t) - log ref(y_t | y_<t)

without a label of any step. If phi is proportional to ref exp(R / beta), then

  beta sum_{u <= t} q_u = V(y_<=t) - V(),  V = beta log E_ref[e^{R/beta} | .],

the soft value of the prefix less that of the prompt: q is a potential's
difference. Source: Yuan et al. 2024, Free Process Rewards without Process
Labels; Cui et al. 2025, Process Reinforcement through Implicit Rewards (PRIME).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import choices, credit, masked, metrics, scoring, types
from rl.losses.terms import term
from rl.transforms import Transform, log_ratios, sample_ends, transform

Array = jax.Array
BASELINES = ("released", "paper")
_POLICY = scoring.Need("policy", scoring.log_probs)
_REFERENCE = scoring.Need("ref", scoring.log_probs)


# Rewards.


def implicit_rewards() -> Transform:
  """q_t = log pi_prm - log pi_ref of each scored token, in nats.

  The reward in units of the outcome is beta q; PRIME's scale cancels beta, up
  to its eps.
  """
  return log_ratios("prm", "ref")


@transform("token")
def all_but_last(signal: Array, rollout: types.Rollout) -> Array:
  """The rewards, but 0 on the last scored token of each sample."""
  return jnp.where(sample_ends(rollout), 0.0, signal)


@transform("token")
def over_largest_return(signal: Array, rollout: types.Rollout) -> Array:
  """r_t / (max over the batch's tokens of |sum_{u >= t} r_u| + 1e-6).

  Returns then lie in [-1, 1] whatever the scale of r; as the maximum is the
  whole batch's, it belongs in `rl.method.prepare`, where transforms run.
  Source: PRIME's released code ("batch_norm").
  """
  valid = rollout.valid("token")
  returns = credit.returns_to_go(signal, valid)
  return jnp.where(valid, signal, 0.0) / (jnp.abs(returns).max() + 1e-6)


def leave_one_out_tokens(
  rewards: Array, mask: Array, form: str = "released"
) -> Array:
  """Token rewards less what the others earn per token.

    paper     r_it - mean_{j != i} m_j,  m_j = mean_t r_jt
    released  n/(n-1) r_it - sum_j m_j / (n-1), which is the paper's plus
              (r_it - m_i) / (n - 1)

  The sums of both over a sample agree, and so do both where its tokens earn
  alike; then they are `leave_one_out` of that reward.

  Args:
    rewards: `[..., S, T]`.
    mask: `[..., S, T]` bool, tokens of the samples that exist.
    form: "released" or "paper".

  Returns:
    `[..., S, T]`, 0 where masked and where no other sample has a token.

  Raises:
    ValueError: unknown form.

  Source: Cui et al. 2025 (PRIME), its text and its code.
  """
  if form not in BASELINES:
    raise ValueError(choices.unknown("form", form, BASELINES))
  members = mask.any(-1)
  others = masked.count(members, keepdims=True) - 1.0
  own = masked.mean(rewards, mask)
  total = masked.sum(own, members, keepdims=True)
  share = jnp.maximum(others, 1.0)[..., None]
  less = rewards - (total - own)[..., None] / share
  if form == "released":
    less += (rewards - own[..., None]) / share
  return jnp.where(mask & (others > 0)[..., None], less, 0.0)


@transform("token")
def minus_others_token_mean(
  signal: Array, rollout: types.Rollout, *, form: str = "released"
) -> Array:
  """`leave_one_out_tokens` within each group."""
  return leave_one_out_tokens(signal, rollout.valid("token"), form)


# Learning the model from outcomes.


@term("none", "sample", needs={_POLICY, _REFERENCE})
def implicit_cross_entropy(
  _, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> tuple[Array, dict[str, Array]]:
  """-[y log sigma(r) + (1 - y) log(1 - sigma(r))], r = beta sum_t q_t.

  y is the verdict; give the term `loss_filter=only(known_verdict)`, or an unknown one
  counts as wrong. The model that is trained is the learner's own; at the
  reference r = 0 and the loss is log 2. Logged: `pair_accuracy`, the share of a
  group's pairs of a right and a wrong sample that r orders so (ties and groups
  without such pairs: 1/2).
  Source: Yuan et al. 2024; the pair accuracy: PRIME's released code.
  """
  q = policy[scoring.log_probs] - rollout.extras[_REFERENCE]
  r = beta * masked.sum(q.astype(jnp.float32), rollout.mask)
  y = (rollout.correct == 1).astype(jnp.float32)
  found = pair_accuracy(jax.lax.stop_gradient(r), y, rollout.mask.any(-1))
  return jax.nn.softplus(r) - y * r, {"pair_accuracy": found}


def pair_accuracy(scores: Array, right: Array, valid: Array) -> Array:
  """Chance that a right sample of a group scores above a wrong one.

  Args:
    scores: `[P, S]`.
    right: `[P, S]` bool or 0/1.
    valid: `[P, S]` bool.

  Returns:
    `[P]`; ties count 1/2, and so does a group that lacks one kind.
  """
  found = jax.vmap(metrics.auc)(scores, right, valid)
  mixed = (valid & (right > 0)).any(-1) & (valid & (right <= 0)).any(-1)
  return jnp.where(mixed, found, 0.5)
