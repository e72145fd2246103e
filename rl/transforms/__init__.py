"""Transforms turn rewards into advantages, as Optax turns gradients into updates.

`base` holds the class and the ways to compose transforms, `library` the
transforms of one step each, `filters` the choice of prompts, samples and tokens.
Their public names are those of this package: `transforms.chain`.
"""

from rl.transforms.base import (
  LevelError,
  Transform,
  among,
  chain,
  check_shape,
  describe,
  each,
  lift,
  mend,
  scale,
  transform,
)
from rl.transforms.filters import (
  accuracy_between,
  all_finished,
  finished,
  known_verdict,
  mixed_verdicts,
  only,
  right_verdict,
  wrong_verdict,
)
from rl.transforms.library import (
  broadcast,
  broadcast_steps,
  center,
  components,
  gae,
  group_normalize,
  last_step,
  leave_one_out,
  log_ratios,
  max_at_k_weights,
  mean_tokens,
  min_form_rewards,
  min_steps,
  minus_running_mean,
  moved,
  moving_average,
  pass_at_k_advantages,
  place_at_step_ends,
  place_last,
  probe,
  returns_to_go,
  sample_ends,
  scores,
  step_ends,
  step_scores,
  sum_steps,
  sum_tokens,
  verdicts,
  weighted_sum,
  whiten,
)
