"""DeepSeek-V3.2: wrong samples that have become unlikely leave the objective.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import dataclasses

import jax.numpy as jnp

from rl import masked, scoring
from rl.losses import ratios
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import Surrogate, ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import center, chain, scores


def mask_off_policy_samples(surrogate: Surrogate, delta: float) -> Surrogate:
  """Multiplies a surrogate by 0 where A < 0 and the sample is off-policy.

    mean_t (log mu_t - log pi_t) > delta

  pi is the policy that is trained and mu the behavior policy; the mean is over
  the tokens in the loss of a sample. A sample that has become likelier is never
  masked. Masked samples count in the aggregation weights, and other terms of
  the loss still read them. Logs the share of masked tokens as
  `policy/off_policy_frac`.

  Args:
    surrogate: any surrogate, of tokens or samples.
    delta: largest mean log-ratio of a sample with A < 0, in nats per token.
  """

  def fn(log_ratio, advantages, policy, rollout):
    result = surrogate.fn(log_ratio, advantages, policy, rollout)
    values, metrics = result if isinstance(result, tuple) else (result, {})
    distance = masked.mean(
      rollout.behavior_log_probs - policy[scoring.log_probs],
      rollout.mask,
      keepdims=True,
    )  # [P, S, 1]
    is_masked = rollout.mask & (advantages < 0) & (distance > delta)
    metrics = metrics | {"policy/off_policy_frac": is_masked}
    if surrogate.gives == "sample":
      is_masked = is_masked.any(-1)
    return jnp.where(is_masked, 0.0, values), metrics

  name = f"mask_off_policy_samples({surrogate}, delta={delta:g})"
  return dataclasses.replace(surrogate, name=name, fn=fn)


def off_policy_mask(
  delta: float = 0.5, clip: float = 0.2, beta: float = 0.001
) -> Method:
  """Maximises M min(rho A, clip(rho, 1 - clip, 1 + clip) A) - beta rho k3.

    M = 0 if A < 0 and mean_t (log mu_t - log pi_t) > delta, else 1

  rho [P, S, T] is the importance ratio of a token to the policy at the start of
  the training step, pi the policy that is trained, mu the behavior policy, as
  the sampler reported it, and A_i = R_i - mean R, with R_i the score of sample
  i and mean R the mean of its group. rho k3 is an unbiased estimate of the KL
  to the policy at the start of the run (`rl.losses.terms.kl`), and is not
  masked. The loss is averaged over the tokens of each sample, then over
  samples, masked ones included.
  Deviation: the ratio of the report has mu in the denominator as well; here and
  in TRL the distance of mu to the old policy is in M alone.
  Open: the report does not state delta, clip and beta. 0.5 is where the
  documentation of TRL suggests to start; clip and beta are guesses.
  Left out: the routing of experts of the rollout. The report's truncated
  sampling is a setting of the sampler.
  Source: DeepSeek-AI 2025, DeepSeek-V3.2.

  Args:
    delta: largest mean log-ratio of a sample with A < 0, in nats per token.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    beta: weight of the KL; 0 leaves it and the reference policy out.
  """
  aggregate = seq_mean_token_mean()
  surrogate = mask_off_policy_samples(ppo_clip(clip, clip), delta)
  loss = policy_gradient(surrogate, aggregate=aggregate)
  penalty = kl("k3", aggregate=aggregate, ratio=ratios.token)
  return Method(
    advantage=chain(scores(), center()),
    loss=loss + beta * penalty if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
