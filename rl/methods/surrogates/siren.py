"""SIREN: keeps the entropy of likely tokens at uncertain positions constant.

Axes: P prompts, S samples per prompt (a group), T completion tokens, V tokens
in the vocabulary, N token positions.
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.aggregates import seq_mean_token_mean, seq_mean_token_sum_norm
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.methods.surrogates.selection import ALL_AXES
from rl.transforms import center, chain, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
# Against rounding error: 4 of 5 equally likely tokens must be a nucleus of mass
# 0.8, and equal entropies must reach their quantile.
_ROUNDING = 1e-6


def top_p_entropy(p: float) -> scoring.Probe:
  """Entropy of the renormalised nucleus, the fewest tokens that have mass p."""

  def fn(logits, tokens):
    del tokens
    log_probs = jnp.sort(jax.nn.log_softmax(logits), descending=True)  # [N, V]
    before = jnp.cumsum(jnp.exp(log_probs), -1) - jnp.exp(log_probs)
    # A token is inside if the mass before it is below p; no gradient passes.
    inside = jax.lax.stop_gradient(before) < p - _ROUNDING
    total = jax.nn.logsumexp(jnp.where(inside, log_probs, -jnp.inf), -1)
    q = jnp.where(inside, jnp.exp(log_probs - total[:, None]), 0.0)
    return total - jnp.sum(q * log_probs, -1)

  return scoring.Probe(f"top_p_entropy({p:g})", fn)


@transform(takes="none", gives="token", needs={_ENTROPY})
def open_positions(_, rollout: types.Rollout, *, quantile: float) -> jax.Array:
  """Tokens whose entropy reaches the quantile over the tokens of the batch."""
  entropy, mask = rollout.extras[_ENTROPY], rollout.valid("token")
  threshold = masked.quantile(entropy, mask, quantile, ALL_AXES)
  return mask & (entropy >= threshold - _ROUNDING)


@transform(
  takes="none",
  gives="scalar",
  init=lambda **_: {"anchor": jnp.zeros(()), "set": jnp.array(False)},
  needs=lambda p, **_: {_ENTROPY, scoring.Need("old", top_p_entropy(p))},
)
def entropy_gap(
  _, rollout: types.Rollout, state, *, p: float, quantile: float
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """2 (h - h*), the slope of (h - h*)^2; h* is the h of the first rollout.

  h is the entropy within the nucleus, averaged over the open positions of a
  sample and then over samples.
  """
  selected, _ = open_positions(quantile).apply(None, rollout, ())
  values = rollout.extras[scoring.Need("old", top_p_entropy(p))]
  weights = seq_mean_token_mean().fn(selected)
  h = jnp.sum(weights * jnp.where(selected, values, 0.0))
  anchor = jnp.where(state["set"], state["anchor"], h)
  new = {"anchor": anchor, "set": state["set"] | selected.any()}
  return 2 * (h - anchor), new


@term(
  takes="none",
  aggregate=seq_mean_token_mean(),
  needs=lambda p: {scoring.Need("policy", top_p_entropy(p))},
)
def nucleus_entropy(
  _, policy: types.Named, rollout: types.Rollout, *, p: float
) -> jax.Array:
  """The entropy within the nucleus at each token."""
  del rollout
  return policy[top_p_entropy(p)]


def siren(
  p: float = 0.8,
  quantile: float = 0.8,
  coef: float = 0.005,
  low: float = 0.2,
  high: float = 0.28,
  horizon: int | None = None,
) -> Method:
  """`dr_grpo` with a wider clip above 1, plus coef (h - h*)^2.

  h is the entropy within the nucleus of mass p, averaged over those tokens of a
  sample whose full entropy reaches the batch's `quantile`, then over samples;
  h* is the h of the first rollout. The term is computed as 2 coef (h_old - h*)
  h, linear in h. Its gradient is exact at the first update of a rollout, if
  that is on the whole rollout; later updates keep the slope.
  Source: Jiang et al. 2025, Rethinking Entropy Regularization in Large
  Reasoning Models.

  Args:
    p: mass of the nucleus.
    quantile: level of the quantile of the entropy in the batch.
    coef: weight of the entropy term.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    horizon: constant that divides the sum over tokens; None takes T, the padded
      length of the batch.
  """
  entropy = nucleus_entropy(p).of(loss_filter=open_positions(quantile))
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(
      ppo_clip(low, high), aggregate=seq_mean_token_sum_norm(horizon)
    )
    + (coef * entropy_gap(p, quantile)) * entropy,
  )
