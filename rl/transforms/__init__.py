"""Transforms turn scores into advantages, as Optax transforms gradients.

`base` has the class `Transform` and the functions that compose transforms,
`library` the transforms of scores, rewards and advantages, `level_changes`
those from one level to another, such as steps to tokens, and `filters` the
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
from rl.transforms.level_changes import (
  broadcast,
  broadcast_steps,
  last_step,
  mean_tokens,
  min_steps,
  place_at_step_ends,
  place_last,
  sample_ends,
  step_ends,
  sum_steps,
  sum_tokens,
  weighted_sum,
)
from rl.transforms.library import (
  center,
  components,
  gae,
  group_normalize,
  leave_one_out,
  log_ratios,
  max_at_k_weights,
  min_form_rewards,
  minus_running_mean,
  moving_average_value,
  pass_at_k_advantages,
  probe,
  returns_to_go,
  scores,
  step_scores,
  update_moving_average,
  verdicts,
  whiten,
)
