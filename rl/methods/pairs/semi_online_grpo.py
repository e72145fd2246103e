"""Semi-online GRPO: samples of a generator that lags behind."""

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
  """GRPO without a clip on the samples of an older policy, weights capped.

    A     (R - mean R) / (std R + eps)
    loss  - sg[min(rho_t, cap)] A grad log pi(y_t) + beta k3 to the start,
          mean over samples of the mean over tokens

  rho_t = pi / pi_generator, as the sampler reported it. The generator takes the
  policy's parameters after `every` training steps: with 1, one update per
  rollout, the same beta, and a sampler that agrees with the trainer this is
  `grpo`; the paper goes to 100.
  Source: Lanchantin et al. 2025, Bridging Offline and Online Reinforcement
  Learning for LLMs.
  """
  aggregate = seq_mean_token_mean()
  capped = weighted_reinforce((0.0, cap), (0.0, cap))
  loss = policy_gradient(capped, aggregate=aggregate, against="behavior")
  generator = (("generator", sync(every)),)
  return Method(
    advantage=chain(scores(), group_normalize(ddof, eps)),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()), *generator) if beta else generator,
    behavior="generator",
  )
