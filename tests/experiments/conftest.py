"""Experiments of the tests use one device, as on a user's machine.

Programs of one device compile faster than those of eight, and they are kept. A
file or a test marked `several_devices` has all eight.
"""

import jax
import pytest

_devices = jax.devices


def _name_first(count, patch):
  """Makes JAX name its first `count` devices only; None means all."""
  patch.setattr(
    jax, "devices", lambda *args, **names: _devices(*args, **names)[:count]
  )
  patch.setattr(
    jax, "device_count", lambda *args, **names: len(jax.devices(*args, **names))
  )


@pytest.fixture(scope="module", autouse=True)
def _one_device(request):
  with pytest.MonkeyPatch.context() as patch:
    if not request.node.get_closest_marker("several_devices"):
      _name_first(1, patch)
    yield


@pytest.fixture(autouse=True)
def _several_devices(request, monkeypatch):
  if request.node.get_closest_marker("several_devices"):
    _name_first(None, monkeypatch)
