"""Adaptive Training: pass@k where the policy does not explore, else pass@1."""

import jax
import jax.numpy as jnp

from rl import masked, objectives, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

_ENTROPY = scoring.Need("old", scoring.entropy)
_ROUNDING = 1e-3  # so that .53 of 100 prompts are 53


@transform("sample", needs={_ENTROPY})
def choose_k_by_entropy(
  signal: jax.Array, rollout: types.Rollout, *, k: int, exploit: float
) -> jax.Array:
  """A_pass@1 in the prompts of highest mean entropy, A_pass@k in the others.

  Args:
    signal: `[P, S]` scores.
    k: size of the subset.
    exploit: share of the batch's prompts, rounded down, that get A_pass@1.
      Prompts of equal entropy are treated alike.
  """
  valid = rollout.sample_mask
  exists = rollout.valid("prompt")
  entropy = masked.mean(
    rollout.extras[_ENTROPY], rollout.valid("token"), axis=(-2, -1)
  )
  at_least = exists & (entropy >= entropy[:, None])
  room = exploit * masked.count(exists) + _ROUNDING
  explores = masked.count(at_least) <= room
  one = objectives.pass_at_k_advantages(signal, 1, valid)
  many = objectives.pass_at_k_advantages(signal, k, valid)
  return jnp.where(explores[:, None], one, many)


def pass_at_k_adaptive(
  k: int = 4, exploit: float = 0.5, low: float = 0.2, high: float = 0.28
) -> Method:
  """A_i = A_pass@1 in the prompts of highest entropy, A_pass@k in the others.

  Where the policy explores by itself (a mean entropy in the upper half of the
  batch, or the upper share `exploit`) it is made to exploit; where it does not,
  pass@k makes it explore. Both are analytic, `pass_at_k` with 1 and with k.
  Open in the paper, and chosen here: the mean is over all tokens of the group,
  of the policy at the step's start; prompts of equal entropy go together.
  Source: Chen et al. 2025, Pass@k Training, section 4.2.3.

  Raises:
    ValueError: `exploit` is not in [0, 1].
  """
  if not 0 <= exploit <= 1:
    raise ValueError(
      f"exploit = {exploit:g}: a share of the prompts is from 0 to 1; nearest: "
      f"{min(max(exploit, 0.0), 1.0):g}"
    )
  return Method(
    advantage=chain(scores(), choose_k_by_entropy(k, exploit)),
    loss=policy_gradient(ppo_clip(low, high)),
  )
