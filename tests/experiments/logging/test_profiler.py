"""Tests of which dispatches a profiler trace contains."""

import jax.numpy as jnp

from experiments.logging import profiler


def test_the_three_dispatches_after_the_first_are_traced(tmp_path):
  trace = profiler.Trace(tmp_path)
  counts = []
  for _ in range(6):
    trace.start_dispatch()
    assert (tmp_path / "profile").exists() == (len(counts) > 3)
    trace.end_dispatch(jnp.ones(3) + 1)
    counts.append(trace.num_traced)
  assert counts == [0, 1, 2, 3, 3, 3]
  trace.close()
  assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


def test_a_run_that_ends_early_writes_what_it_has(tmp_path):
  short = profiler.Trace(tmp_path / "one")
  for _ in range(2):
    short.start_dispatch()
    short.end_dispatch(())
  short.close()
  short.close()
  assert short.num_traced == 1
  assert len(list((tmp_path / "one").rglob("*.xplane.pb"))) == 1
  never = profiler.Trace(tmp_path / "never")
  never.start_dispatch()
  never.end_dispatch(())
  never.close()
  assert never.num_traced == 0
  assert not (tmp_path / "never").exists()
