"""The contract that every method keeps, with a row of `rows_FAMILY.py` each."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import method_contract, tabular_policy
from helpers.method_contract import P

from experiments.training import checkpointing
from rl import methods

ROWS = method_contract.rows()
KNOWN = {"permutation", "no_signal", "padding", "microbatches", "mesh"}


@pytest.fixture(scope="module", params=sorted(ROWS))
def case(request):
  """All tests of a method run before those of the next one."""
  return method_contract.Case(request.param, ROWS[request.param])


def test_every_method_has_its_row_and_its_documentation():
  assert sorted(ROWS) == methods.names()
  for name in methods.names():
    doc = inspect.getdoc(methods.factory(name))
    assert "Source:" in doc, name
    signature = inspect.signature(methods.factory(name))
    for parameter in signature.parameters.values():
      assert parameter.default is not parameter.empty, (name, parameter)


def test_every_break_is_of_a_property_and_has_its_reason():
  for name, row in ROWS.items():
    assert set(row.breaks) <= KNOWN, name
    assert all(len(reason) > 10 for reason in row.breaks.values()), name


def test_padding_and_invalid_slots_have_exactly_zero_gradient(case):
  """They hold NaN, and the policy is far from the reference."""
  clean = case.rollout()
  g, metrics, _ = case.run(clean)
  assert np.abs(g).max() > 0
  outside = ~np.asarray(clean.valid("token"))
  far = jnp.asarray(outside)[..., None]
  params = tabular_policy.params(p=P)
  params["hidden"] = jnp.where(far, 300.0, params["hidden"])
  dirty = case.rollout(garbage=np.nan)
  g_dirty, metrics_dirty, _ = case.run(dirty, case.state(params))
  assert metrics["guard/bad_sample"] == metrics_dirty["guard/bad_sample"] == -1
  if "padding" in case.row.breaks:
    assert g[outside].any() or np.abs(g_dirty - g).max() > 1e-6
    return
  assert not g[outside].any()
  np.testing.assert_array_equal(g_dirty, g)


def test_permuting_the_samples_permutes_everything(case):
  order = np.random.default_rng(0).permutation(tabular_policy.S)
  rollout, state = case.rollout(), case.state()
  g, _, _ = case.run(rollout)
  other = method_contract.permuted(state, order)
  moved, _, _ = case.run(
    case.complete(method_contract.permuted(rollout, order), other.params), other
  )
  if "permutation" in case.row.breaks:
    assert np.abs(moved - g[:, order]).max() > 1e-5
    return
  np.testing.assert_allclose(moved, g[:, order], atol=1e-6)


def test_no_signal_no_policy_gradient(case):
  """All parameter sets equal the policy."""
  rollout, params = case.rollout(), tabular_policy.params(p=P)
  rollout = method_contract.silenced(rollout, case.row.signal)
  g, _, _ = case.run(case.complete(rollout), case.state(params, params))
  if "no_signal" in case.row.breaks:
    assert np.abs(g).max() > 1e-6
    return
  np.testing.assert_allclose(g, 0, atol=1e-7)


def test_extreme_groups_stay_finite(case):
  for name, rollout in method_contract.extremes(case):
    g, metrics, _ = case.run(rollout)
    assert np.isfinite(g).all(), name
    for key, value in metrics.items():
      if not key.startswith("accuracy/") and "hist" not in key:
        assert np.isfinite(value).all(), (name, key)
    if name in ("no_sample", "no_token"):
      assert not g.any(), name


def test_state_advances_once_per_rollout_and_keeps_its_shape(case):
  state = case.state()
  structure = jax.tree.structure(state)
  traces = []
  for seed in range(3):
    _, _, state = case.run(case.rollout(seed), state)
    assert jax.tree.structure(state) == structure
    traces.append(case.traces)
  assert int(state.step) == 3
  # Other tests have traced it before, and perhaps freed their programs.
  assert traces[0] == traces[-1], "the step was traced again"


def test_the_same_packed_in_microbatches_on_eight_devices(case):
  """One padded batch on one device, and two packed ones on a 2x2x2 mesh."""
  rollout = case.rollout(3)
  g, metrics, _ = case.run(rollout)
  packed = method_contract.packed(rollout)
  placed = method_contract.on_mesh((packed, case.state()))
  cut, cut_metrics, _ = case.run(*placed, cut=True)
  if case.row.breaks.keys() & {"microbatches", "mesh"}:
    assert np.abs(cut - g).max() > 1e-6
    return
  np.testing.assert_allclose(cut, g, atol=1e-5 * np.abs(g).max())
  for key in method_contract.COMPARED:
    np.testing.assert_allclose(cut_metrics[key], metrics[key], atol=1e-5)


@pytest.mark.long
def test_every_state_comes_back_from_a_checkpoint(tmp_path):
  """All methods' states in one file, with numbers that no init gives."""
  rng = np.random.default_rng(0)

  def lived_in(x):
    if not jnp.issubdtype(x.dtype, jnp.floating):
      return x
    return jnp.asarray(rng.normal(size=x.shape), x.dtype)

  states = {
    name: jax.tree.map(lived_in, method_contract.Case(name, row).state())
    for name, row in ROWS.items()
  }
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, states, {})
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    back, _ = checkpoints.restore(states)
  assert jax.tree.structure(back) == jax.tree.structure(states)

  def same(a, b):
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
      a, b = map(jax.random.key_data, (a, b))
    np.testing.assert_array_equal(a, b)

  jax.tree.map(same, back, states)
