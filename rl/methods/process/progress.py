"""Progress: the outcome, and each step's own reward (PAV, MRT, VSRM).

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

from rl import UsageError
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import (
  broadcast,
  broadcast_steps,
  chain,
  leave_one_out,
  scores,
  step_scores,
)


def progress(
  alpha: float = 3.0, prover: str = "policy", clip: float = 0.2
) -> Method:
  """A_t = R_i - mean of the others + alpha d_k, for a token t of step k.

  R_i [P, S] is the score of sample i, the mean is over the other samples of its
  group, and d_k [P, S, K] is the step score: the progress of step k, which is
  the change of the chance of success by this step. The progress of a step is
  credited to the tokens of that step alone. A sum over later steps would
  telescope to the last chance minus the present one, which is the outcome again
  with a baseline. The loss is PPO-clip.
  Step rewards for d: `gains(tries=4)` for PAV, `gains()` for MRT and
  `significant_gains()` for VSRM, with the sampler `prefix_values`.
  Deviation: the papers use a critic, or no baseline, for R; this implementation
  uses the mean of the other samples.
  Open: PAV uses an alpha of 3 to 5; the values of MRT and VSRM were not checked
  against the papers.
  Source: Setlur et al. 2024, Rewarding Progress (PAV); Qu et al. 2025,
  Optimizing Test-Time Compute via Meta Reinforcement Fine-Tuning (MRT); Yue et
  al. 2025, Promoting Efficient Reasoning with Verifiable Stepwise Reward
  (VSRM).
  Quantity: sampler/values.

  Args:
    alpha: weight of the progress.
    prover: the policy whose chances of success the sampler estimates: "policy"
      for the one that is trained, or "ref", which adds the policy at the start
      of the run as a parameter set.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `prover` is neither "policy" nor "ref".
  """
  if prover not in ("policy", "ref"):
    raise UsageError(f"prover = {prover!r} must be 'policy' or 'ref'")
  outcome = chain(scores(), leave_one_out(), broadcast())
  own_step = chain(step_scores(), broadcast_steps())
  return Method(
    advantage=outcome + alpha * own_step,
    loss=policy_gradient(ppo_clip(clip, clip)),
    parameter_sets=(("ref", frozen()),) if prover == "ref" else (),
  )
