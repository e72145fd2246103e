"""Semi-online GRPO: samples of a generator that lags behind.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.methods.surrogates.weights import weighted_reinforce
from rl.parameter_sets import frozen, sync
from rl.transforms import chain, group_normalize, scores


def semi_online_grpo(
  every: int = 10,
  cap: float = 2.0,
  beta: float = 0.001,
  ddof: int = 1,
  eps: float = 1e-6,
) -> Method:
  """GRPO without a clip on samples of an older policy, with capped weights.

    A     (R - mean R) / (std R + eps)
    loss  -sg[min(rho_t, cap)] A log pi(y_t) + beta k3, averaged over the tokens
          of a sample, then over samples

  R [P, S] is the score of a sample; mean and std are over its group.
  rho_t = pi / pi_generator is the importance ratio of token t, with log-probs
  as the sampler reported them; sg stops the gradient. k3 estimates the KL to
  the policy at the start of the run. With every = 1, one update per rollout and
  a sampler that agrees with the trainer, this is `grpo` with the same beta.
  Source: Lanchantin et al. 2025, Bridging Offline and Online Reinforcement
  Learning for LLMs.

  Args:
    every: training steps between copies of the policy's parameters to the
      generator; 1 is online, the paper's largest is 100.
    cap: largest weight.
    beta: weight of the KL; 0 drops the reference and its forward pass.
    ddof: the standard deviation of n samples divides by n - ddof.
    eps: constant added to the standard deviation.
  """
  aggregate = seq_mean_token_mean()
  capped = weighted_reinforce((0.0, cap), (0.0, cap))
  loss = policy_gradient(capped, aggregate=aggregate, denominator="behavior")
  generator = (("generator", sync(every)),)
  return Method(
    advantage=chain(scores(), group_normalize(ddof, eps)),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()), *generator) if beta else generator,
    behavior="generator",
  )
