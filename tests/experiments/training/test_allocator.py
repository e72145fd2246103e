"""Tests that freed memory goes back to the system."""

import ctypes
import pathlib

import pytest

from experiments.training import allocator

MB = 1 << 20
PIECE = 1 << 16  # below what glibc takes from the system by itself


def _resident():
  pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
  return int(pages) * 4096


def test_what_is_free_goes_back():
  """Under the last piece, which is in use, glibc keeps all that is free."""
  libc = ctypes.CDLL(None)
  if not hasattr(libc, "malloc_trim"):
    pytest.skip("another allocator than glibc's")
  libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
  libc.free.argtypes = [ctypes.c_void_p]
  pieces = [libc.malloc(PIECE) for _ in range(64 * MB // PIECE)]
  for piece in pieces:
    ctypes.memset(piece, 1, PIECE)
  last = pieces.pop()
  for piece in pieces:
    libc.free(piece)
  before = _resident()
  allocator.trim()
  assert before - _resident() > 48 * MB
  libc.free(last)


def test_another_allocator_is_left_alone(monkeypatch):
  monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
  allocator.trim()
