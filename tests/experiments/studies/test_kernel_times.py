"""`kernel_times` sums the kernels of the first device in a trace."""

import jax
import pytest

from experiments.studies.benchmark.on_accelerator import kernel_times

# Device 0 runs "gemm" twice, the second time beside "add", and device 1 runs
# something else. Offsets and durations are in picoseconds.
TRACE = """
planes {
  name: "/device:GPU:1"
  lines { name: "Stream #1" events { metadata_id: 1 duration_ps: 9000000 } }
  event_metadata { key: 1 value { id: 1 name: "other" } }
}
planes {
  name: "/device:GPU:0"
  lines {
    name: "Stream #1(Compute)"
    events {
      metadata_id: 1 offset_ps: 1000000 duration_ps: 2000000
      stats { metadata_id: 7 str_value: "dot.1" }
    }
    events {
      metadata_id: 1 offset_ps: 5000000 duration_ps: 3000000
      stats { metadata_id: 7 str_value: "dot.1" }
    }
  }
  lines {
    name: "Stream #2(Compute)"
    events { metadata_id: 2 offset_ps: 7000000 duration_ps: 4000000 }
  }
  lines {
    name: "XLA Modules"
    events { metadata_id: 2 offset_ps: 0 duration_ps: 90000000 }
  }
  event_metadata { key: 1 value { id: 1 name: "gemm" } }
  event_metadata { key: 2 value { id: 2 name: "add" } }
  stat_metadata { key: 7 value { id: 7 name: "hlo_op" } }
}
"""


@pytest.fixture
def folder(tmp_path):
  data = jax.profiler.ProfileData.text_proto_to_serialized_xspace(TRACE)
  (tmp_path / "plugins").mkdir()
  (tmp_path / "plugins/host.xplane.pb").write_bytes(data)
  return tmp_path


def test_kernels_are_summed_by_operation(folder):
  trace = kernel_times.read(folder)
  assert [tuple(kernel)[:3] for kernel in trace.kernels] == [
    ("gemm", "dot.1", 2),
    ("add", "", 1),
  ]
  assert [k.seconds for k in trace.kernels] == pytest.approx([5e-6, 4e-6])


def test_time_in_which_two_kernels_run_counts_once(folder):
  trace = kernel_times.read(folder)
  assert trace.span == pytest.approx(10e-6)  # from 1 to 11
  assert trace.busy == pytest.approx(8e-6)  # 1 to 3, and 5 to 11


def test_the_table_has_the_share_of_the_span(folder):
  text = kernel_times.read(folder).to_markdown()
  assert "0.01 ms of 0.01 ms busy, 3 kernels" in text
  assert "| 50.0% | 0.005 | 2 | dot.1 | gemm |" in text
