"""Tests of the folder of compiled programs (`experiments.cli.devices`)."""

import jax
import pytest

from experiments.cli import cache_folders, devices

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
  devices.configure(cpu_devices=2)  # the flag takes precedence
  assert jax.config.jax_enable_compilation_cache
  assert jax.config.jax_compilation_cache_dir


def test_nothing_is_kept_if_that_is_asked_for_or_impossible(cache):
  devices.configure(keep_programs=False)
  assert not jax.config.jax_enable_compilation_cache
  (cache / "extremum").write_text("a file in place of the folder")
  devices.configure()
  assert jax.config.jax_compilation_cache_dir is None
