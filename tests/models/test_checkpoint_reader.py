"""Parameters are read from checkpoints that match, and no others."""

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from models import checkpoint_reader, checksums

PARAMS = {"a": {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}}


@pytest.fixture(
  scope="module", params=["in a state", "in an old state", "alone"]
)
def run(tmp_path_factory, request):
  """Checkpoints of a run at the steps 2 and 10: its state, and its JSON."""
  folder = tmp_path_factory.mktemp("run")
  for step in (2, 10):
    params = jax.tree.map(lambda x, step=step: x + step, PARAMS)
    saved = {"params": params}
    if request.param == "in a state":
      saved = {"learners": {"policy": saved}}
    state = {**saved, "count": np.zeros(3)}
    if request.param == "in an old state":  # of runs before 2026-12
      state["learners"] = {"critic": {"params": {"b": np.zeros(2)}}}
    ocp.PyTreeCheckpointer().save(folder / str(step) / "state", state)
    data = {
      "step": step,
      "checksums": checksums.compute(saved) | {"count": 7},
    }
    ocp.Checkpointer(ocp.JsonCheckpointHandler()).save(
      folder / str(step) / "data", args=ocp.args.JsonSave(data)
    )
  return folder


@pytest.mark.parametrize(("step", "added"), [(None, 10), (2, 2)])
@pytest.mark.parametrize("is_expected", [True, False])
def test_parameters_are_read_without_the_rest(run, step, added, is_expected):
  expected = PARAMS if is_expected else None
  params = checkpoint_reader.restore_params(run, expected, step)
  np.testing.assert_array_equal(params["a"]["w"], PARAMS["a"]["w"] + added)
  assert params["a"]["w"].devices() == {jax.local_devices()[0]}


def test_other_parameters_are_refused(run):
  checkpoint_reader.check_params(run, PARAMS)
  other = {"a": {"w": np.zeros((3, 2), np.float32)}}
  message = r"step 10 .* a\.w is float32\[2,3\] .* should be float32\[3,2\]"
  with pytest.raises(ValueError, match=message):
    checkpoint_reader.check_params(run, other)


def test_steps_are_in_ascending_order(run, tmp_path):
  assert checkpoint_reader.steps(run) == [2, 10]
  assert checkpoint_reader.latest_step(run) == 10
  assert checkpoint_reader.steps(tmp_path / "absent") == []
  assert checkpoint_reader.latest_step(tmp_path / "absent") is None


def test_a_renamed_folder_is_refused():
  checkpoint_reader.check_step({"step": 3}, 3)
  checkpoint_reader.check_step({}, 3)  # of an older version
  with pytest.raises(ValueError, match="in the folder 3 is that of step 4"):
    checkpoint_reader.check_step({"step": 4}, 3)


@pytest.mark.parametrize(
  ("target", "saved", "message"),
  [
    ({"a": 1, "b": 1}, {"a": 1}, "b is absent in .* should be int32"),
    ({"a": 1}, {"a": 1, "b": 1}, r"b is int32\[\] in .* should be absent"),
    ({"a": 1.5}, {"a": 1}, r"a is int32\[\] in .* should be float32\[\]"),
  ],
)
def test_trees_that_differ_are_refused(target, saved, message):
  arrays = [jax.tree.map(jnp.asarray, tree) for tree in (target, saved)]
  with pytest.raises(ValueError, match=message):
    checkpoint_reader.check_matches(*arrays, step=1)
  checkpoint_reader.check_matches(arrays[1], arrays[1], step=1)


def test_the_latest_or_the_requested_step_is_selected():
  select = checkpoint_reader.select_step
  assert select([9, 1, 5], "folder", None) == 9
  assert select([4], "folder", None) == 4
  assert select([9, 1, 5], "folder", 1) == 1
  with pytest.raises(ValueError, match=r"the nearest is 5$"):
    select([9, 1, 5], "folder", 6)
  with pytest.raises(ValueError, match="no checkpoint in folder"):
    select([], "folder", None)


def test_arrays_without_a_sharding_go_to_the_first_device():
  leaf = jax.ShapeDtypeStruct((2,), jnp.float32)
  sharding = checkpoint_reader.sharding_of(leaf)
  assert sharding.device_set == {jax.local_devices()[0]}
  second = jax.device_put(jnp.zeros(2), jax.local_devices()[1])
  assert checkpoint_reader.sharding_of(second) == second.sharding
