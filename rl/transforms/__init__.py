"""Transforms turn scores into advantages, as Optax transforms gradients.

`base` has the class `Transform` and the functions that compose transforms,
`library` the transforms of scores, rewards and advantages, and `filters` the
transforms that choose samples. Import their public names from this package, for
example `from rl.transforms import chain`.
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
  scale,
  suggest_bridge,
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
  moving_average_value,
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
  update_moving_average,
  verdicts,
  weighted_sum,
  whiten,
)
