"""The programs of the benchmark `accelerator`, compiled for a TPU."""

import functools

import jax
import jax.numpy as jnp
import pytest

from experiments.aot import chips
from experiments.studies.benchmark.on_accelerator import ahead, pieces

pytestmark = [pytest.mark.long, pytest.mark.several_devices]
WEIGHT = jax.ShapeDtypeStruct((2, 256, 512), jnp.bfloat16)
TEXT = """\
%fused_computation (p: bf16[256,512]) -> f32[256,512] {
  %inside = f32[256,512]{1,0} convert(%p)
}

%body (p: bf16[2,256,512]) -> bf16[2,256,512] {
  %logits = f32[64,512]{1,0} dot(%x, %y)
  %copy = f32[256,512]{1,0} convert(%slice)
}
"""


@pytest.fixture(scope="module")
def target():
  pytest.importorskip("libtpu", reason="no extra tpu here")
  chip, devices = chips.devices("v5e:2x2")
  setting = pieces.Setting(True, {}, chip.memory)
  programs = ahead.all_programs(setting, devices[0])
  return chip, {(p.piece, p.name): p for p in programs}


def test_a_float32_array_of_the_shape_of_a_weight_is_a_copy():
  assert ahead.float32_copies(TEXT, {"kernel": WEIGHT}) == ["256,512"]
  fused = TEXT.partition("%body")[0]
  assert ahead.float32_copies(fused, {"kernel": WEIGHT}) == []
  assert ahead.float32_copies(TEXT, {"kernel": WEIGHT.update(shape=(9,))}) == []


def test_every_piece_has_its_programs(target):
  _, programs = target
  assert {piece for piece, _ in programs} == set(pieces.PIECES)
  assert programs["trainer", "trainer, full (splash)"].kernel


@pytest.mark.parametrize(
  "key", [("trainer", "trainer, full (splash)"), ("decoding", "batch 16")]
)
def test_a_program_is_as_it_should_be(target, key):
  chip, programs = target
  peak, wrong = ahead.faults(programs[key], chip, "tpu")
  assert wrong == []
  assert 0 < peak < chip.memory


def test_what_is_wrong_with_a_program_is_said(target):
  chip, programs = target
  program = programs["attention", "attention blocked (blocked)"]
  wrong = program._replace(kernel="tpu_custom_call")
  _, faults = ahead.faults(wrong, chip, "tpu")
  assert faults == ["has no tpu_custom_call"]
  _, devices = chips.devices("v5e:2x2")
  large = jax.ShapeDtypeStruct(
    (2**33,), jnp.int8, sharding=jax.sharding.SingleDeviceSharding(devices[0])
  )
  too_large = functools.partial(jax.jit(lambda x: (x + 1, x + 2)).lower, large)
  peak, faults = ahead.faults(program._replace(lower=too_large), chip, "tpu")
  assert peak is None
  assert "emory" in faults[0]

  def call_host(x):
    return jax.pure_callback(lambda x: x, jax.typeof(x), x)

  calling = ahead.Program(
    "numbers", "host", lambda: jax.jit(call_host).lower(jnp.ones(3))
  )
  # Another compiler accepts a program of any size.
  _, faults = ahead.faults(calling, chip._replace(memory=1.0), "cpu")
  host_fault, size_fault = faults
  assert host_fault.startswith("calls the host")
  assert size_fault == "needs 0.0 GiB"
