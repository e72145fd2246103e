"""Tests of `rl.further_losses`: which minibatches are updated, and when not.

Two prompts of one sample of one token are two minibatches. The loss is a
function of the output of the value head at the token, of which every update
with the learning rate 1 subtracts the slope.
"""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import worked_example

from rl import further_losses, scoring
from rl.losses.terms import term
from rl.method import FurtherUpdates
from rl.update_plan import Plan

VALUES = scoring.Need("policy", scoring.values)
ROLLOUT = worked_example.rollout([[1.0], [1.0]])


@term(takes="none", gives="token", needs={VALUES})
def level(_, policy, rollout, *, sharp=False):
  """The output of the value head, or its root above 4."""
  del rollout
  values = policy[scoring.values]
  value = jnp.sqrt(values - 4.0) if sharp else values
  return value, {"level_max": values}


def _run(values, usable=True, max_passes=10, sharp=False):
  """Returns the values after the updates, the updates, and the passes."""
  params = {
    "log_probs": jnp.full((2, 1, 1), -1.0),
    "values": jnp.float32(values).reshape(2, 1, 1),
  }
  tx = optax.sgd(lambda count: 1.0)
  (params, opt_state), passes = further_losses.run(
    FurtherUpdates(level(sharp), "level_max", 2.0, max_passes),
    worked_example.POLICY,
    tx,
    Plan(minibatches=2),
    (params, tx.init(params)),
    ROLLOUT,
    jnp.asarray(usable),
  )
  counts = [int(x) for x in np.ravel(optax.tree.get(opt_state, "count"))]
  return params["values"].ravel().tolist(), counts, int(passes)


@pytest.mark.parametrize(
  ("values", "settings", "expected"),
  [
    # The limit, 2, is accepted. The last pass makes no update.
    ([4.5, 2.0], {}, ([1.5, 2.0], [3], 4)),
    ([1.0, 3.0], {}, ([1.0, 2.0], [1], 2)),
    ([4.5, 3.5], {"max_passes": 2}, ([2.5, 1.5], [4], 2)),
    ([4.5, 3.5], {"max_passes": 0}, ([4.5, 3.5], [0], 0)),
    ([4.5, 3.5], {"usable": False}, ([4.5, 3.5], [0], 1)),
    # The slope of the root is not finite at 4.
    ([4.0, 4.25], {"sharp": True, "max_passes": 1}, ([4.0, 3.25], [1], 1)),
  ],
)
def test_minibatches_above_the_limit_are_updated_until_none_is(
  values, settings, expected
):
  assert _run(values, **settings) == expected
