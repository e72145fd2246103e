"""RLVR of Tulu 3: PPO on ten points for a right answer."""

from rl.method import Method
from rl.methods.critic.ppo import actor_critic
from rl.transforms import verdicts


def tulu3(
  alpha: float = 10.0,
  beta: float = 0.05,
  lam: float = 0.95,
  clip: float = 0.2,
  value_clip: float = 0.2,
  value_coef: float = 0.1,
) -> Method:
  """PPO with a critic on alpha points for a right answer, less beta KL a token.

  Advantages are whitened, so alpha sets the price of the KL and the scale of
  the critic's targets.
  Open: lam and value_coef of the releases; the value head starts fresh, where
  theirs starts from a reward model.
  Source: Lambert et al. 2024, Tulu 3: Pushing Frontiers in Open Language Model
  Post-Training.
  """
  return actor_critic(
    alpha * verdicts(), 1.0, lam, beta, clip, value_clip, value_coef
  )
