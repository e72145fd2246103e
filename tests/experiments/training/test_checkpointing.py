"""Tests that arrays are restored bit for bit, on any devices."""

import json
import logging
import shutil
import subprocess
import sys
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from experiments.training import checkpointing
from models import checkpoint_reader, checksums

pytestmark = pytest.mark.several_devices


@flax.struct.dataclass
class State:
  step: Any
  params: Any
  opt_state: Any
  method_state: Any
  rng: Any
  parameter_sets: Any


def _state() -> State:
  weights = jax.random.normal(jax.random.key(1), (8, 4))
  params = {
    "layers": {"w": weights, "b": weights[0].astype(jnp.bfloat16)},
    "odd": jnp.array([jnp.nan, -0.0, 1e-45, jnp.inf]),
  }
  tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
  opt_state = tx.init(params)
  gradient = jax.tree.map(jnp.ones_like, params)
  _, opt_state = tx.update(gradient, opt_state, params)
  return State(
    step=jnp.array(3, jnp.int32),
    params=params,
    opt_state=opt_state,
    method_state=((), (jnp.arange(5),)),
    rng={
      "one": jax.random.key(7),
      "many": jax.random.split(jax.random.key(8, impl="rbg"), 8),
    },
    parameter_sets={},
  )


def _mesh(rows, columns):
  devices = np.array(jax.devices()[:8]).reshape(rows, columns)
  return jax.sharding.Mesh(devices, ("row", "column"))


def _bits(tree):
  data = [
    jax.random.key_data(x)
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    else x
    for x in jax.tree.leaves(tree)
  ]
  return [(x.dtype, x.shape, np.asarray(x).tobytes()) for x in data]


def _placed(state, mesh, spec):
  """The state with its matrices and the many keys laid over a mesh."""

  def place(leaf):
    wide = leaf.ndim == 2 or leaf.shape == (8,)
    chosen = PartitionSpec(*spec[: leaf.ndim]) if wide else PartitionSpec()
    return jax.device_put(leaf, NamedSharding(mesh, chosen))

  return jax.tree.map(place, state)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  directory = tmp_path_factory.mktemp("run") / "checkpoints"
  state = _placed(_state(), _mesh(4, 2), ("row", "column"))
  with checkpointing.Checkpoints(directory, keep=3) as checkpoints:
    assert checkpoints.save(3, state, {"examples": 96, "name": "run"})
  return directory, state


def test_restored_state_is_bit_identical_with_its_keys(saved):
  directory, state = saved
  with checkpointing.Checkpoints(directory) as checkpoints:
    assert checkpoints.latest_step() == 3
    restored, meta = checkpoints.restore(state)
  assert meta == {"examples": 96, "name": "run"}
  assert jax.tree.structure(restored) == jax.tree.structure(state)
  assert _bits(restored) == _bits(state)
  for name in ("one", "many"):
    assert restored.rng[name].dtype == state.rng[name].dtype
  draw = jax.vmap(jax.random.uniform)
  np.testing.assert_array_equal(
    draw(restored.rng["many"]), draw(state.rng["many"])
  )


def test_restores_onto_the_shardings_that_are_asked_for(saved):
  directory, state = saved
  target = _placed(_state(), _mesh(2, 4), ("column", "row"))
  abstract = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
    target,
  )
  with checkpointing.Checkpoints(directory) as checkpoints:
    restored, _ = checkpoints.restore(abstract)
  assert _bits(restored) == _bits(state)
  for result, expected in zip(
    jax.tree.leaves(restored), jax.tree.leaves(target), strict=True
  ):
    assert result.sharding.is_equivalent_to(expected.sharding, result.ndim)


def test_params_can_be_read_alone_with_or_without_a_target(saved):
  directory, state = saved
  alone = checkpoint_reader.restore_params(directory)
  assert jax.tree.structure(alone) == jax.tree.structure(state.params)
  assert _bits(alone) == _bits(state.params)
  assert all(len(x.devices()) == 1 for x in jax.tree.leaves(alone))
  placed = checkpoint_reader.restore_params(directory, state.params, step=3)
  assert _bits(placed) == _bits(state.params)
  assert placed["layers"]["w"].sharding == state.params["layers"]["w"].sharding


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"w": jnp.zeros((8, 5))}, r"w is float32\[8,4\] in .* be float32\[8,5\]"),
    ({"b": jnp.zeros(4)}, r"b is bfloat16\[4\] in .* be float32\[4\]"),
    ({"v": jnp.zeros(2)}, r"params\.layers\.v is absent in .* be float32\[2\]"),
  ],
)
def test_a_state_that_does_not_fit_is_refused_by_name(saved, change, message):
  directory, state = saved
  params = {**state.params, "layers": {**state.params["layers"], **change}}
  with (
    checkpointing.Checkpoints(directory) as checkpoints,
    pytest.raises(ValueError, match=message),
  ):
    checkpoints.restore(state.replace(params=params))


def test_donating_the_state_after_save_does_not_reach_the_checkpoint(tmp_path):
  state = {"params": jnp.arange(1000.0)}
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, state, {})
    jax.jit(lambda s: {"params": s["params"] * 0}, donate_argnums=0)(state)
  restored = checkpoint_reader.restore_params(tmp_path)
  np.testing.assert_array_equal(restored, np.arange(1000.0))


def test_saves_multiples_or_when_forced_and_keeps_the_latest(tmp_path):
  state = {"params": jnp.zeros(2)}
  with checkpointing.Checkpoints(tmp_path, keep=2, every=5) as checkpoints:
    started = [checkpoints.save(step, state, {}) for step in range(1, 12)]
    assert [i + 1 for i, saved in enumerate(started) if saved] == [5, 10]
    assert checkpoints.save(11, state, {}, force=True)
    assert not checkpoints.save(11, state, {}, force=True)
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    for step in (10, 11):
      checkpoints.restore(state, step)
    message = r"step 5 in .*available: \[10, 11\], of which the nearest is 10"
    with pytest.raises(ValueError, match=message):
      checkpoints.restore(state, 5)


KILLED_WHILE_SAVING = """
import os, sys
import jax.numpy as jnp
from experiments.training import checkpointing

checkpoints = checkpointing.Checkpoints(sys.argv[1])
checkpoints.save(1, {"params": jnp.full(2**23, 1.0)}, {})
checkpoints.wait()
checkpoints.save(2, {"params": jnp.full(2**23, 2.0)}, {})
os._exit(9)
"""


def test_a_run_killed_while_saving_leaves_only_whole_checkpoints(tmp_path):
  child = subprocess.run(
    [sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path)], check=False
  )
  assert child.returncode == 9
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    latest = checkpoints.latest_step()
    assert latest in (1, 2)
    state, _ = checkpoints.restore({"params": jnp.zeros(2**23)})
  assert bool((state["params"] == latest).all())
  leftovers = [p.name for p in tmp_path.iterdir() if not p.name.isdigit()]
  assert leftovers == []


def test_a_folder_without_checkpoints_is_named(tmp_path):
  with pytest.raises(ValueError, match="nowhere does not exist"):
    checkpoint_reader.restore_params(tmp_path / "nowhere")
  with (
    checkpointing.Checkpoints(tmp_path) as checkpoints,
    pytest.raises(ValueError, match="no checkpoint in"),
  ):
    checkpoints.restore({"params": jnp.zeros(1)})


def _files(folder):
  return sorted(path for path in folder.rglob("*") if path.is_file())


def _two_saved(directory):
  """Steps 1 and 2 of an array that nothing compresses much."""
  built = [
    {"params": jax.random.normal(jax.random.key(i), (64, 64))} for i in (1, 2)
  ]
  with checkpointing.Checkpoints(directory) as checkpoints:
    for step, state in enumerate(built, 1):
      checkpoints.save(step, state, {"at": step})
  return built


def _flip(path, rng):
  content = bytearray(path.read_bytes())
  place = int(rng.integers(len(content)))
  content[place] ^= 1 << int(rng.integers(8))
  path.write_bytes(bytes(content))


def _truncate(path, rng):
  content = path.read_bytes()
  path.write_bytes(content[: int(rng.integers(len(content)))])


@pytest.mark.parametrize("damage", [_flip, _truncate])
def test_a_damaged_checkpoint_is_set_aside_for_the_one_before(damage, tmp_path):
  """Whatever file it is of: the state is what was saved, or the one before."""
  built = _two_saved(tmp_path / "whole")
  names = [
    path.relative_to(tmp_path / "whole")
    for path in _files(tmp_path / "whole" / "2")
    if path.stat().st_size
  ]
  rng, fell_back = np.random.default_rng(0), 0
  for number, name in enumerate(names):
    folder = tmp_path / str(number) / "checkpoints"
    shutil.copytree(tmp_path / "whole", folder)
    damage(folder / name, rng)
    messages = []
    with checkpointing.Checkpoints(folder) as checkpoints:
      state, meta = checkpoints.restore_newest(built[0], messages.append)
      step = meta["at"]
      np.testing.assert_array_equal(state["params"], built[step - 1]["params"])
      assert len(messages) == (step == 1)
      if step == 1:
        fell_back += 1
        assert "2_0: damaged (" in messages[0]
        assert checkpoints.latest_step() == 1
        assert checkpoints.save(2, built[1], {"at": 2})
        checkpoints.wait()
        again, _ = checkpoints.restore(built[1], 2)
        np.testing.assert_array_equal(again["params"], built[1]["params"])
  assert fell_back > len(names) / 2, names


def test_arrays_that_were_changed_are_found_by_their_numbers(tmp_path):
  """Files that are right in themselves, with other numbers in them."""
  built = _two_saved(tmp_path / "a")
  other = {"params": built[1]["params"].at[3, 5].add(1e-6)}
  with checkpointing.Checkpoints(tmp_path / "b") as checkpoints:
    checkpoints.save(2, other, {})
  shutil.rmtree(tmp_path / "a" / "2" / "state")
  shutil.copytree(
    tmp_path / "b" / "2" / "state", tmp_path / "a" / "2" / "state"
  )
  with checkpointing.Checkpoints(tmp_path / "a") as checkpoints:
    with pytest.raises(ValueError, match="damaged: params is not what was"):
      checkpoints.restore(built[1])
    assert checkpoints.restore_newest(built[1], print)[1] == {"at": 1}
  (tmp_path / "c").mkdir()
  shutil.move(tmp_path / "checkpoints_damaged" / "2_0", tmp_path / "c" / "2")
  with pytest.raises(ValueError, match="damaged: params is not what was"):
    checkpoint_reader.restore_params(tmp_path / "c")


def test_a_checkpoint_is_not_that_of_the_step_of_a_renamed_folder(tmp_path):
  built = _two_saved(tmp_path / "checkpoints")
  (tmp_path / "checkpoints" / "2").rename(tmp_path / "checkpoints" / "7")
  message = "in the folder 7 is that of step 2; give the folder its former name"
  with pytest.raises(ValueError, match=message):
    checkpoint_reader.restore_params(tmp_path / "checkpoints")
  first = checkpoint_reader.restore_params(tmp_path / "checkpoints", step=1)
  np.testing.assert_array_equal(first, built[0]["params"])
  with checkpointing.Checkpoints(tmp_path / "checkpoints") as checkpoints:
    with pytest.raises(ValueError, match=message):
      checkpoints.restore(built[1])
    # A run goes on from the one before.
    assert checkpoints.restore_newest(built[1], print)[1] == {"at": 1}


def test_where_no_checkpoint_is_whole_none_is_moved(tmp_path):
  built = _two_saved(tmp_path / "checkpoints")
  for path in _files(tmp_path / "checkpoints"):
    path.write_bytes(b"")
  with checkpointing.Checkpoints(tmp_path / "checkpoints") as checkpoints:
    with pytest.raises(
      ValueError, match=r"no checkpoint of .* can be read: 2: "
    ):
      checkpoints.restore_newest(built[0], print)
    assert sorted(p.name for p in checkpoints.directory.iterdir()) == ["1", "2"]
  with checkpointing.Checkpoints(tmp_path / "none") as checkpoints:
    assert checkpoints.restore_newest(built[0], print) is None


@pytest.mark.parametrize(
  "dtype", [bool, "int8", "uint32", "bfloat16", "float32", "complex64"]
)
def test_a_number_tells_every_single_change_and_order(dtype):
  rng = np.random.default_rng(0)
  array = jnp.asarray(rng.integers(0, 2, (5, 7))).astype(dtype)
  usual = checksums.compute({"x": array})["x"]
  changed = (
    array.at[i, j].set(jnp.where(array[i, j], 0, 1).astype(dtype))
    for i, j in np.ndindex(5, 7)
  )
  result = {checksums.compute({"x": other})["x"] for other in changed}
  assert usual not in result
  assert len(result) == 35
  assert checksums.compute({"x": array[::-1]})["x"] != usual
  split = jax.device_put(
    jnp.tile(array, (8, 1)), NamedSharding(_mesh(4, 2), PartitionSpec("row"))
  )
  assert checksums.compute({"x": split}) == checksums.compute(
    {"x": np.asarray(split)}
  )


def test_orbax_logs_no_traceback_of_an_error_that_it_raises(tmp_path, capsys):
  """A run on a full disk says one line, not this one after 300 others."""
  checkpointing.Checkpoints(tmp_path).close()
  logger = logging.getLogger("absl")

  def is_logged(pathname, exc_info):
    record = logger.makeRecord(
      "absl", logging.ERROR, pathname, 1, "text", (), exc_info
    )
    return bool(logger.filter(record))

  failed = (OSError, OSError("full"), None)
  assert not is_logged("site-packages/orbax/checkpoint/x.py", failed)
  assert is_logged("site-packages/orbax/checkpoint/x.py", None)
  assert is_logged("mine.py", failed)


def test_a_state_of_an_earlier_layout_is_refused_in_a_sentence(tmp_path):
  state = {"params": jnp.ones(2), "opt_state": {"mu": jnp.ones(2)}}
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, state, {})
  state = {"learners": {"policy": state}}
  with (
    checkpointing.Checkpoints(tmp_path) as checkpoints,
    pytest.raises(
      ValueError, match=r"1 was written by an earlier version.*new workdir"
    ),
  ):
    checkpoints.restore(state)


def test_usually_every_step_is_saved_and_the_latest_three_are_kept(tmp_path):
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    for step in range(1, 6):
      assert checkpoints.save(step, {"params": jnp.zeros(2)}, {})
  assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4", "5"]


def test_what_a_killed_run_has_begun_to_save_is_removed(tmp_path):
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, {"params": jnp.zeros(2)}, {})
  (tmp_path / "3.orbax-checkpoint-tmp").mkdir()
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    # Orbax removes it in a thread, which the next save waits for.
    checkpoints.save(2, {"params": jnp.zeros(2)}, {})
  assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


def test_orbax_does_not_hear_of_sigterm(tmp_path):
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    assert not checkpoints._manager.reached_preemption(1)


def test_values_that_were_changed_are_found_and_their_order_is_free(tmp_path):
  state = {"params": jnp.zeros(2)}
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, state, {"b": 1, "a": 2})
    checkpoints.wait()
    file = tmp_path / "1" / "data" / "metadata"
    for text, is_whole in (
      ('{"a": 2, "b": 1}', True),
      ('{"a": 2, "b": 3}', False),
    ):
      data = json.loads(file.read_text())
      file.write_text(json.dumps(data | {"meta": json.loads(text)}))
      if is_whole:
        assert checkpoints.restore(state)[1] == {"a": 2, "b": 1}
        continue
      with pytest.raises(ValueError, match=r"damaged: \(meta\) is not what"):
        checkpoints.restore(state)


def test_each_damaged_checkpoint_gets_a_folder_of_its_own(tmp_path):
  """Two at once, whose reasons are cut to one line of 200 characters."""
  state = {"params": jnp.zeros(2)}
  with checkpointing.Checkpoints(tmp_path / "checkpoints") as checkpoints:
    for step in (1, 2, 3):
      checkpoints.save(step, state, {"at": step})
    checkpoints.wait()
    restore = checkpoints.restore

    def restore_the_first(state, step):
      if step > 1:
        raise ValueError(f"bad\nsector {step} " + 300 * "x")
      return restore(state, step)

    checkpoints.restore = restore_the_first
    messages = []
    assert checkpoints.restore_newest(state, messages.append)[1] == {"at": 1}
  folder = tmp_path / "checkpoints_damaged"
  assert [path.name for path in folder.glob("3_*")].count("3_0") == 1
  reasons = {step: f"bad sector {step} " + 187 * "x" for step in (3, 2)}
  for message, (step, reason) in zip(messages, reasons.items(), strict=True):
    assert message.endswith(f": damaged ({reason})")
    (moved,) = (path for path in folder.glob(f"{step}_*") if path.is_dir())
    assert message.startswith(f"{moved}: ")
    assert moved.with_suffix(".txt").read_text() == reason + "\n"
