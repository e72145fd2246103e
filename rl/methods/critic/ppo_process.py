"""PPO with a critic whose rewards are those of reasoning steps.

Axes: P prompts, S samples per prompt (a group), K reasoning steps.
"""

from rl.method import Method
from rl.methods.critic.ppo import actor_critic
from rl.transforms import chain, place_at_step_ends, step_scores


def ppo_process(
  gamma: float = 1.0,
  lam: float = 1.0,
  beta: float = 0.001,
  clip: float = 0.2,
  value_clip: float = 0.2,
  value_coef: float = 0.5,
) -> Method:
  """`ppo` whose reward r_t is the score of step k at its last token, else 0.

    r_t   (s_k if t is the last token of step k, else 0)
          - beta (log pi_old - log pi_ref), at the sampled token t

  s_k [P, S, K] are step scores, or the rewards of steps by `step_reward` of the
  config, such as `outcome_centered`. Advantages, critic and losses are those of
  `ppo`. The return of a sample is the sum of its step scores, so that rewards
  that are positive for every further step favour long samples.
  Source: Wang et al. 2023, Math-Shepherd: Verify and Reinforce LLMs
  Step-by-step without Human Annotations (step-by-step PPO); Hybrid Reward
  Normalization for Process-supervised Non-verifiable Agentic Tasks (PPR: beta
  0.001, step rewards `outcome_centered` of the scores of a judge, which the
  question `principles` of `rewards.judged` asks for).
  Quantity: step_scores.

  Args:
    gamma, lam, clip, value_clip, value_coef: same as in `ppo`.
    beta: weight of the KL penalty; 0 drops the reference policy and its forward
      pass.
  """
  return actor_critic(
    chain(step_scores(), place_at_step_ends()),
    gamma,
    lam,
    beta,
    clip,
    value_clip,
    value_coef,
  )
