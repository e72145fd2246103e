"""SIREN: the entropy of likely words at open positions stays as it began."""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.aggregates import seq_mean_token_mean, seq_mean_token_sum_norm
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.methods.surrogates.selection import EVERYWHERE
from rl.transforms import center, chain, scores, transform

_ENTROPY = scoring.Need("old", scoring.entropy)
# So that 4 of 5 equal tokens are a nucleus of 0.8, and equal entropies reach
# their own quantile.
_ROUNDING = 1e-6


def top_p_entropy(p: float) -> scoring.Probe:
  """Entropy of the renormalised nucleus, the fewest tokens that make up p."""

  def fn(logits, tokens):
    del tokens
    log_probs = jnp.sort(jax.nn.log_softmax(logits), descending=True)
    before = jnp.cumsum(jnp.exp(log_probs), -1) - jnp.exp(log_probs)
    inside = jax.lax.stop_gradient(before) < p - _ROUNDING
    total = jax.nn.logsumexp(jnp.where(inside, log_probs, -jnp.inf), -1)
    q = jnp.where(inside, jnp.exp(log_probs - total[:, None]), 0.0)
    return total - jnp.sum(q * log_probs, -1)

  return scoring.Probe(f"top_p_entropy({p:g})", fn)


@transform("none", "token", needs={_ENTROPY})
def open_positions(_, rollout: types.Rollout, *, quantile: float) -> jax.Array:
  """Tokens whose entropy reaches the quantile of the batch's tokens."""
  entropy, mask = rollout.extras[_ENTROPY], rollout.valid("token")
  edge = masked.quantile(entropy, mask, quantile, EVERYWHERE)
  return mask & (entropy >= edge - _ROUNDING)


@transform(
  "none",
  "scalar",
  init=lambda **_: {"anchor": jnp.zeros(()), "set": jnp.array(False)},
  needs=lambda p, **_: {_ENTROPY, scoring.Need("old", top_p_entropy(p))},
)
def entropy_gap(
  _, rollout: types.Rollout, state, *, p: float, quantile: float
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """2 (h - h*), the slope of (h - h*)^2; h* is the first rollout's h."""
  kept, _ = open_positions(quantile).apply(None, rollout, ())
  values = rollout.extras[scoring.Need("old", top_p_entropy(p))]
  weights = seq_mean_token_mean().fn(kept)
  h = jnp.sum(weights * jnp.where(kept, values, 0.0))
  anchor = jnp.where(state["set"], state["anchor"], h)
  new = {"anchor": anchor, "set": state["set"] | kept.any()}
  return 2 * (h - anchor), new


@term(
  "none",
  aggregate=seq_mean_token_mean(),
  needs=lambda p: {scoring.Need("policy", top_p_entropy(p))},
)
def nucleus_entropy(
  _, policy: types.Named, rollout: types.Rollout, *, p: float
) -> jax.Array:
  """The entropy within the nucleus."""
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
  """Dr. GRPO with clip-higher, plus coef (h - h*)^2.

  h is the entropy within the nucleus of mass p, averaged over the tokens of a
  sample whose whole entropy reaches the batch's `quantile`, then over samples;
  h* is the h of the first rollout. Built as the linear term
  2 coef (h_old - h*) h: the gradient at a first update with the whole rollout,
  with its slope held over the later ones. `horizon` as in `dr_grpo`.
  Source: Jiang et al. 2025, Rethinking Entropy Regularization in Large
  Reasoning Models.
  """
  held = nucleus_entropy(p).of(loss_filter=open_positions(quantile))
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(
      ppo_clip(low, high), aggregate=seq_mean_token_sum_norm(horizon)
    )
    + (coef * entropy_gap(p, quantile)) * held,
  )
