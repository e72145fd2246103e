"""PRIME: an implicit process reward model that learns beside the policy.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl import UsageError, registry
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.implicit import (
  all_but_last,
  divide_by_largest_return,
  implicit_cross_entropy,
  implicit_rewards,
  minus_others_token_mean,
)
from rl.methods.process.step_transforms import has_others
from rl.parameter_sets import frozen, learned
from rl.transforms import (
  accuracy_between,
  all_finished,
  among,
  chain,
  known_verdict,
  leave_one_out,
  only,
  place_last,
  returns_to_go,
  verdicts,
  whiten,
)

UPDATES = ("after", "before")  # when the PRM is updated: see `prime`


def prime(
  beta: float = 0.05,
  process_coef: float = 1.0,
  update: str = "after",
  baseline: str = "released",
  low: float = 0.2,
  high: float = 0.8,
  clip: float = 0.2,
  ddof: int = 1,
) -> dict[str, Method]:
  """A = whiten(returns-to-go of process_coef r~ + o~), from outcome labels.

    q_t  log pi_prm - log pi_ref of each token, [P, S, T]
    r    q with 0 at the last token, divided by (the largest |return-to-go| of
         such rewards in the batch + 1e-6)
    r~   n/(n-1) r_it - sum_j mean_t r_jt / (n-1), n the size of the group
    o~   the leave-one-out advantage of the verdict, at the last token

  r_it is r at token t of sample i, and the sum is over the samples j of the
  group. There are two learners. "prm", the process reward model (PRM), starts
  as a copy of the policy and makes one update per rollout, on the cross-entropy
  between sigma(beta sum_t q_t) and the verdict, with q of all tokens and sigma
  the sigmoid. "policy" is trained with PPO-clip, averaged over the tokens of
  all samples, without a KL. Both read only groups whose share of right samples
  is in [low, high] and in which the length limit cut no sample; without any
  such group neither is updated. pi_ref is the policy at the start of the run.
  The PRM's learning rate is the setting `config.learners.prm`; in the paper it
  is twice the policy's (1e-6 and 5e-7). Samples with an unknown verdict are in
  neither o~ nor the cross-entropy. A group with one sample has advantage 0.
  Deviation: the paper's r~ is `baseline="paper"`; the default here is that of
  the released code. The reward of the last token is dropped as in verl's
  recipe; the first release kept it. Both weights are 1; the recipe's weights of
  5 and 5 give the same advantages after whitening. The paper samples until the
  batch is full of groups within [low, high]; this implementation drops the
  other groups.
  Source: Cui et al. 2025, Process Reinforcement through Implicit Rewards.
  Quantity: log_ratios.

  Args:
    beta: factor of sum_t q_t in the PRM's loss.
    process_coef: weight of r~.
    update: "after": the rewards are those of the PRM at the start of the
      training step, as in the released script; "before": the PRM is updated
      first, and its new parameters give the rewards.
    baseline: "released", r~ as above, or "paper", r~ = r_it - mean_{j != i}
      mean_t r_jt.
    low, high: smallest and largest share of right samples of a group.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the variance of the batch is divided by its number of tokens - ddof.

  Raises:
    UsageError: if `update` is unknown; also when a training step is traced, if
      `baseline` is unknown.
  """
  if update not in UPDATES:
    raise UsageError(registry.describe_unknown("update", update, UPDATES))
  sample_filter = accuracy_between(low, high) & all_finished()
  process = chain(
    implicit_rewards(),
    all_but_last(),
    divide_by_largest_return(),
    minus_others_token_mean(baseline),
  )
  outcome = chain(verdicts(), leave_one_out(), place_last())
  rewards = process_coef * process + among(known_verdict, outcome)
  policy = Method(
    sample_filter=sample_filter,
    advantage=chain(rewards, returns_to_go(), among(has_others, whiten(ddof))),
    loss=policy_gradient(ppo_clip(clip, clip)),
    parameter_sets=(("prm", learned()), ("ref", frozen())),
  )
  prm = Method(
    sample_filter=sample_filter,
    loss_filter=only(known_verdict),
    loss=implicit_cross_entropy(beta),
    parameter_sets=(("ref", frozen()),),
  )
  if update == "before":
    return {"prm": prm, "policy": policy}
  return {"policy": policy, "prm": prm}
