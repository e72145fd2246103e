"""PRLCoder: PPO on the scores of lines and on the verdict of the program.

Axes: P prompts, S samples per prompt (a group), K reasoning steps.
"""

from rl.method import Method
from rl.methods.critic.ppo import actor_critic
from rl.transforms import (
  chain,
  place_at_step_ends,
  place_last,
  scores,
  step_scores,
)


def prlcoder(
  process_weight: float = 1.0,
  outcome_weight: float = 1.0,
  gamma: float = 1.0,
  lam: float = 1.0,
  beta: float = 0.05,
  clip: float = 0.2,
  value_clip: float = 0.2,
  value_coef: float = 0.5,
) -> Method:
  """`ppo` whose rewards are those of the steps, and that of the sample.

    r_t   (process_weight s_k if t is the last token of step k, else 0)
          + (outcome_weight R if t is the last token of the sample, else 0)
          - beta (log pi_old - log pi_ref), at the sampled token t

  A step is a line of a program, and s_k [P, S, K] is its score by a process
  reward model: the rewards of steps by `step_reward = "model_steps()"` of the
  config, where a model is named in `config.models`; else the task's step
  scores. R [P, S] is the score of the sample, 1 for a program that passes its
  tests and else 0. The last token of a sample has both rewards. Advantages,
  critic and losses are those of `ppo`.
  Open: only the abstract of the paper was available, which does not state the
  weights of the two rewards, or the values of R for a program that does not
  compile and for one that fails a test.
  Source: Ye et al. 2025, Process-Supervised Reinforcement Learning for Code
  Generation (PRLCoder).
  Quantity: step_scores.

  Args:
    process_weight: weight of the scores of steps; with 0 it is `ppo`.
    outcome_weight: weight of the score of the sample.
    gamma, lam, clip, value_clip, value_coef: same as in `ppo`.
    beta: weight of the KL penalty; 0 drops the reference policy and its forward
      pass.
  """
  process = process_weight * chain(step_scores(), place_at_step_ends())
  outcome = outcome_weight * chain(scores(), place_last())
  return actor_critic(
    process + outcome,
    gamma,
    lam,
    beta,
    clip,
    value_clip,
    value_coef,
  )
