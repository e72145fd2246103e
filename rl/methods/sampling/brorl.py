"""Hundreds of samples per prompt, held to a reference that moves up."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import sync
from rl.transforms import chain, group_normalize, mixed_verdicts, scores


def brorl(
  low: float = 0.2,
  high: float = 0.28,
  beta: float = 1e-3,
  every: int = 100,
  ddof: int = 1,
) -> Method:
  """ProRL's recipe, meant for some 512 samples of each of a few prompts.

  GRPO's z-score, clip-higher, groups of mixed verdicts, and beta k2 to a
  reference that is reset to the policy every so many steps. What makes it BroRL
  is `config.rollout.samples`: with N samples the unsampled part of the softmax
  loses its hold on the sign of a step (the coupling vanishes as N grows).
  Open: beta and the period are not stated in what we have of the recipe.
  Source: Hu et al. 2025, BroRL: Scaling Reinforcement Learning via Broadened
  Exploration.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss_filter=mixed_verdicts(),
    loss=policy_gradient(ppo_clip(low, high)) + beta * kl("k2"),
    parameter_sets=(("ref", sync(every)),),
  )
