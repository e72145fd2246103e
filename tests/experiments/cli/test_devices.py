"""Tests of the folder of compiled programs (`experiments.cli.devices`)."""

import os
from types import SimpleNamespace

import jax
import pytest

from experiments.cli import cache_folders, cpu_devices, devices
from experiments.configs import countdown, recipe

SETTINGS = (
  "jax_compilation_cache_dir",
  "jax_compilation_cache_max_size",
  "jax_enable_compilation_cache",
  "jax_persistent_cache_min_compile_time_secs",
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
  """An empty cache of the user, and JAX without a folder of its own."""
  saved = {name: getattr(jax.config, name) for name in SETTINGS}
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  monkeypatch.delenv("XLA_FLAGS")  # eight devices
  jax.config.update("jax_compilation_cache_dir", None)
  yield tmp_path
  for name, value in saved.items():
    jax.config.update(name, value)


def test_programs_are_kept_in_a_folder_of_this_processor(cache):
  devices.configure()
  (folder,) = (cache / "extremum" / "programs").iterdir()
  assert jax.config.jax_compilation_cache_dir == str(folder)
  assert folder == cache_folders.of_programs()
  assert jax.config.jax_compilation_cache_max_size == 4 * 2**30


def test_the_users_own_folder_takes_precedence(cache):
  jax.config.update("jax_compilation_cache_dir", str(cache / "own"))
  devices.configure()
  assert jax.config.jax_compilation_cache_dir == str(cache / "own")
  assert not (cache / "extremum").exists()


def test_programs_of_several_cpu_devices_are_not_kept(cache, monkeypatch):
  flag = "--xla_force_host_platform_device_count="
  monkeypatch.setenv("XLA_FLAGS", flag + "2")
  devices.configure()
  assert not jax.config.jax_enable_compilation_cache
  jax.config.update("jax_enable_compilation_cache", True)
  monkeypatch.setenv("XLA_FLAGS", flag + "1")
  devices.configure(2)  # the flag takes precedence
  assert jax.config.jax_enable_compilation_cache
  assert jax.config.jax_compilation_cache_dir


def test_0_devices_means_those_that_are_fastest(cache, monkeypatch):
  chosen_for = []
  monkeypatch.setattr(
    cpu_devices,
    "choose",
    lambda batches: (chosen_for.append(batches), (1, "measured"))[1],
  )
  assert devices.configure(0, batches=[8]) == "measured"
  assert devices.configure(1) == ""
  monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
  assert devices.configure(0) == ""  # the flag takes precedence
  assert chosen_for == [[8]]
  with pytest.raises(ValueError, match=r"cpu_devices = -1 must be at least 1"):
    devices.configure(-1)


def test_the_number_of_an_environment_variable_is_not_measured(monkeypatch):
  """`JAX_NUM_CPU_DEVICES` sets the configuration of JAX to 1."""
  monkeypatch.delenv("XLA_FLAGS")
  config = SimpleNamespace(
    jax_num_cpu_devices=1, jax_compilation_cache_dir="", update=None
  )
  monkeypatch.setattr(devices.jax, "config", config)
  monkeypatch.setattr(cpu_devices, "choose", None)
  assert devices.configure(0) == ""


def test_other_programs_find_memory_on_a_gpu(cache, monkeypatch):
  """JAX reserves less than all of it, or the share that the user names."""
  names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
  for name in names:
    monkeypatch.setenv(name, "")  # so that its value comes back
  devices.configure()
  assert [os.environ[name] for name in names] == ["0.92", ""]
  monkeypatch.setenv(names[0], "")
  monkeypatch.setenv(names[1], "0.5")
  devices.configure()
  assert [os.environ[name] for name in names] == ["", "0.5"]


def test_a_measured_number_divides_every_batch_of_a_config():
  config = recipe.get_config("qwen3_0_6b_gsm8k_max_at_k")
  assert config.cpu_devices == 0
  # 64 prompts in 2 minibatches of 4 microbatches, and evaluations of 64.
  assert devices.batch_sizes(config) == [8, 64]
  config = countdown.get_config("base")
  assert config.cpu_devices == 1
  assert len(devices.batch_sizes(config)) == (4 if config.get("base") else 2)


def test_programs_without_a_time_of_use_stop_nothing(cache):
  """JAX keeps no program beside one without a time, if the size is limited."""
  pytest.importorskip("filelock")
  folder = cache_folders.of_programs()
  folder.mkdir(parents=True)
  (folder / "jit_f-12-cache").write_bytes(b"a program")
  devices.configure()
  time = folder / "jit_f-12-atime"
  assert len(time.read_bytes()) == 8
  before = time.read_bytes()
  devices.configure()
  assert time.read_bytes() == before


def test_nothing_is_kept_if_that_is_asked_for_or_impossible(cache):
  devices.configure(keep_programs=False)
  assert not jax.config.jax_enable_compilation_cache
  (cache / "extremum").write_text("a file in place of the folder")
  devices.configure()
  assert jax.config.jax_compilation_cache_dir is None
