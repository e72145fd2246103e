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
# Against rounding error. In probability: 4 of 5 equally likely tokens must be a
# nucleus of mass 0.8. In nats: equal entropies must reach their quantile.
_ROUNDING = 1e-6


def top_p_entropy(p: float) -> scoring.Probe:
  """Returns a probe: the entropy of the renormalised nucleus of mass p.

  The nucleus holds the fewest tokens, the most likely ones, whose probabilities
  add up to at least p.
  """

  def fn(logits, tokens):
    del tokens
    log_probs = jnp.sort(jax.nn.log_softmax(logits), descending=True)  # [N, V]
    # Mass of the tokens that are more likely than each token.
    mass_before = jnp.cumsum(jnp.exp(log_probs), -1) - jnp.exp(log_probs)
    # The selection of the nucleus is not differentiated.
    in_nucleus = jax.lax.stop_gradient(mass_before) < p - _ROUNDING
    log_mass = jax.nn.logsumexp(jnp.where(in_nucleus, log_probs, -jnp.inf), -1)
    # Renormalised probabilities q, and their entropy -sum q log q.
    q = jnp.where(in_nucleus, jnp.exp(log_probs - log_mass[:, None]), 0.0)
    return log_mass - jnp.sum(q * log_probs, -1)

  return scoring.Probe(f"top_p_entropy({p:g})", fn)


@transform(takes="none", gives="token", needs={_ENTROPY})
def open_positions(_, rollout: types.Rollout, *, quantile: float) -> jax.Array:
  """Keeps the tokens whose entropy reaches the quantile of the batch."""
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
  """Returns 2 (h - h*), the slope of (h - h*)^2; h* is h of the first rollout.

  h is the entropy within the nucleus under the old policy, averaged over the
  selected tokens of each sample (`open_positions`) and then over samples.
  """
  selected, _ = open_positions(quantile).apply(None, rollout, ())
  values = rollout.extras[scoring.Need("old", top_p_entropy(p))]
  weights = seq_mean_token_mean().fn(selected)
  h = masked.sum(weights * values, selected, ALL_AXES)
  # h*, which is set by the first rollout with a selected token.
  anchor = jnp.where(state["set"], state["anchor"], h)
  new_state = {"anchor": anchor, "set": state["set"] | selected.any()}
  return 2 * (h - anchor), new_state


@term(
  takes="none",
  aggregate=seq_mean_token_mean(),
  needs=lambda p: {scoring.Need("policy", top_p_entropy(p))},
)
def nucleus_entropy(
  _, policy: types.Named, rollout: types.Rollout, *, p: float
) -> jax.Array:
  """Returns the entropy within the nucleus of mass p at each token."""
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

  h is the entropy within the nucleus of mass p (`top_p_entropy`), averaged over
  the selected tokens of each sample, then over samples. A token is selected if
  its entropy over the whole vocabulary, under the policy at the start of the
  training step, reaches the `quantile` of all tokens of the batch. h* is the h
  of the first rollout. The term is computed as 2 coef (h_old - h*) h, with
  h_old under the policy at the start of the step. Its gradient is exact at the
  first update of a rollout, if that is on the whole rollout; later updates keep
  the factor 2 coef (h_old - h*).
  Source: Jiang et al. 2025, Rethinking Entropy Regularization in Large
  Reasoning Models.
  Quantity: nucleus_entropy.

  Args:
    p: mass of the nucleus.
    quantile: level, from 0 to 1, of the quantile of the entropy in the batch.
    coef: weight of the entropy term.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    horizon: constant that divides the sum over tokens; None takes T, the padded
      length of the batch.
  """
  selected_entropy = nucleus_entropy(p).of(loss_filter=open_positions(quantile))
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(
      ppo_clip(low, high), aggregate=seq_mean_token_sum_norm(horizon)
    )
    + (coef * entropy_gap(p, quantile)) * selected_entropy,
  )
