"""Semi-online GRPO: samples come from older parameters of the policy.

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
          of each sample, then over samples

  R [P, S] is the score of a sample; mean and std are over its group. rho_t = pi
  / pi_generator is the importance ratio of token t to the older policy, with
  the log-probs that the sampler reported; sg stops the gradient. k3 estimates
  the KL to the policy at the start of the run. With every = 1, one update per
  rollout and a sampler whose log-probs agree with those of the trainer, this is
  `grpo` with the same beta.
  Source: Lanchantin et al. 2025, Bridging Offline and Online Reinforcement
  Learning for LLMs.

  Args:
    every: number of training steps after which the generator, the parameters
      that sample, becomes a copy of the policy; 1 is online, the paper's
      largest is 100.
    cap: largest weight of a token.
    beta: weight of the KL; 0 drops the reference and its forward pass.
    ddof: the standard deviation of n samples divides by n - ddof.
    eps: constant added to the standard deviation.
  """
  aggregate = seq_mean_token_mean()
  capped = weighted_reinforce(positive=(0.0, cap), negative=(0.0, cap))
  loss = policy_gradient(capped, aggregate=aggregate, denominator="behavior")
  generator = (("generator", sync(every)),)
  return Method(
    advantage=chain(scores(), group_normalize(ddof, eps)),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()), *generator) if beta else generator,
    behavior="generator",
  )
