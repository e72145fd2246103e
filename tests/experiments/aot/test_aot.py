"""Programs compiled for TPUs and GPUs that are not present."""

import json
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_run
from jax.sharding import NamedSharding, PartitionSpec

from experiments.aot import __main__ as command
from experiments.aot import fit, hlo
from experiments.training import build, placement
from experiments.training_run import validate
from models import sharding

pytestmark = pytest.mark.several_devices

CHAIN = "chain(operations=1)"
HEADLINE = ("grpo", "max_at_k(k=2)", "pass_at_k(k=2)", "min_form")
SMOKE = "experiments/configs/smoke.py"

PROGRAM = """\
  HloModule jit_f, is_scheduled=true

  %add (a: f32[], b: f32[]) -> f32[] {
    ROOT %s = f32[] add(%a, %b)
  }

  %inner_cond (p: (s32[], f32[8])) -> pred[] {
    %n = s32[]{:T(128)} constant(3)
    %i = s32[] get-tuple-element(%p), index=0
    ROOT %lt = pred[] compare(%i, %n), direction=LT
  }

  %inner (p: (s32[], f32[8])) -> (s32[], f32[8]) {
    %g = f32[8]{0} all-gather(%x), replica_groups=[4,2]<=[8], dimensions={0}
  }

  %outer_cond (p: (s32[], pred[])) -> pred[] {
    ROOT %busy = pred[] get-tuple-element(%p), index=1
  }

  %outer (p: (s32[], f32[8])) -> (s32[], f32[8]) {
    %w = (s32[], f32[8]) while(%t), condition=%inner_cond, body=%inner
    %r = bf16[16]{0} all-reduce(%y), replica_groups={{0,1,2,3},{4,5,6,7}}, \
to_apply=%add
  }

  ENTRY %main (x: f32[8]) -> f32[8] {
    %w.1 = (s32[], f32[8]) while(%t.1), condition=%outer_cond, body=%outer
    %s = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(%z), \
source_target_pairs={{0,1}}
    %c = f32[4]{0} reduce-scatter(%z), replica_groups=mesh['a'=4,'b'=2] \
{'a','b'}, to_apply=%add
  }
"""


def test_collectives_count_once_per_iteration_of_their_loops():
  text = textwrap.dedent(PROGRAM)
  one = [0] * 8
  assert hlo.collectives(text, one, {None: 5}) == {
    "all-gather": hlo.Sent(15, 15 * 32, 15 * 32 * 1 / 2),
    "all-reduce": hlo.Sent(5, 5 * 32, 5 * 32 * 2 * 3 / 4),
    "reduce-scatter": hlo.Sent(1, 16, 16 * 7),
    "collective-permute": hlo.Sent(1, 16, 16),
  }
  once = hlo.collectives(text, one)
  assert once["all-gather"].count == 3
  other = hlo.collectives(text, one, {None: 5, 3: 2})
  assert other["all-gather"].count == 10


def test_bytes_to_other_slices_are_counted_apart():
  """Two slices of four: groups of two stay inside, larger ones do not."""
  text = textwrap.dedent(PROGRAM)
  two = hlo.collectives(text, [0, 0, 0, 0, 1, 1, 1, 1])
  assert two["all-gather"].outward == two["all-reduce"].outward == 0
  # Four of each slice scatter 7/8 of all there, half of an eighth goes out.
  assert two["reduce-scatter"].wire == 16 * 8 * 3 / 4
  assert two["reduce-scatter"].outward == 16 * 8 * 1 / 2 / 4
  apart = hlo.collectives(text, [0, 1, 0, 1, 2, 3, 2, 3])
  assert apart["all-gather"].wire == 0
  assert apart["all-gather"].outward == 3 * 32 * 1 / 2
  assert apart["all-reduce"].wire == 32 * 2 * 1 / 2
  assert apart["all-reduce"].outward == 32 * 2 * 1 / 2 / 2
  assert apart["collective-permute"] == hlo.Sent(1, 16, 0, 16)


SCATTERS = """\
  HloModule jit_f, is_scheduled=true

  %add (a: bf16[], b: bf16[]) -> bf16[] {
    ROOT %s = bf16[] add(%a, %b)
  }

  %all-reduce-scatter.1 (input.1: bf16[512,1024]) -> bf16[128,1024] {
    %all-reduce.126 = bf16[512,1024]{1,0} all-reduce(%input.1), \
replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
    ROOT %dynamic-slice.252 = bf16[128,1024]{1,0} dynamic-slice(\
%all-reduce.126, %multiply.213, %constant.1690), dynamic_slice_sizes={128,1024}
  }

  ENTRY %main (x: bf16[512,1024]) -> bf16[128,1024] {
    %alone = f32[8]{0} all-reduce(%z), replica_groups={{0},{1},{2},{3}}, \
to_apply=%add
    ROOT %f = bf16[128,1024]{1,0} fusion(%x), kind=kCustom, \
calls=%all-reduce-scatter.1
  }
"""


def test_a_sum_of_which_a_part_is_kept_is_a_reduce_scatter():
  """The TPU compiler writes it so; a group of one device sends nothing."""
  part = 2 * 128 * 1024
  sent = hlo.collectives(textwrap.dedent(SCATTERS), [0] * 8)
  assert sent == {"reduce-scatter": hlo.Sent(1, part, 3 * part)}


def test_groups_are_read_in_all_notations():
  iota = "replica_groups=[2,4]<=[2,2,2]T(1,0,2)"
  assert hlo._group(iota, 8) == [0, 1, 4, 5]
  mesh = "replica_groups=mesh['a'=2,'b'=2,'c'=2] {'a','c'}"
  assert hlo._group(mesh, 8) == [0, 1, 4, 5]
  turned = (
    "replica_groups=mesh['axis_0'=4,'axis_1'=1,'axis_2'=4], "
    "device_ids=([4,4]T(1,0)) {'axis_0'}, use_global_device_ids=true"
  )
  assert hlo._group(turned, 16) == [0, 1, 2, 3]
  assert hlo._group(turned.replace("{'axis_0'}", "{'axis_2'}"), 16) == [
    *(0, 4, 8, 12)
  ]
  assert hlo._group("replica_groups={{0,2},{1,3}}", 4) == [0, 2]
  assert list(hlo._group("replica_groups={}", 4)) == [0, 1, 2, 3]
  for other in ("<[2,2]>", "mesh['a'=2,'b'=2], device_ids=(0;1) {'a'}"):
    with pytest.raises(ValueError, match="an unknown notation"):
      hlo._group(f"replica_groups={other}", 4)


def test_collectives_of_a_compiled_loop_are_found():
  """Seven products, each summed over four of the eight devices."""
  mesh = sharding.make_mesh(data=2, fsdp=4)

  def place(*axes):
    return NamedSharding(mesh, PartitionSpec(*axes))

  def body(i, x):
    return jax.lax.with_sharding_constraint(x @ x.T, place("data", "fsdp"))

  def run(x):
    return jax.lax.fori_loop(0, 7, body, x)

  x = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=place(None, "fsdp"))
  text = jax.jit(run).lower(x).compile().as_text()
  by_kind = hlo.collectives(text, [0] * 8)
  assert by_kind
  assert all(sent.count >= 7 for sent in by_kind.values()), by_kind


@pytest.mark.parametrize(
  ("peak", "beside", "says"),
  [
    (14.0, 1.0, ""),
    (
      14.0,
      2.0,
      "needs 16.0 of 15.8 GiB, 2.0 of it for state that "
      "the program does not use",
    ),
    (17.0, 0.0, "needs 17.0 of 15.8 GiB"),
  ],
)
def test_state_beside_a_program_takes_memory_too(peak, beside, says):
  from experiments.aot import report

  alone = {
    "fits": True,
    "peak_gib": peak,
    "wanted_gib": peak,
    "hbm_gib": 15.75,
    "reason": "",
  }
  program = report._with_other_state(alone, beside)
  assert program["peak_gib"] == program["wanted_gib"] == peak + beside
  assert program["fits"] == (not says)
  assert program["reason"] == says


def test_state_beside_a_refused_program_is_added_too():
  from experiments.aot import report

  refused = {
    "fits": False,
    "peak_gib": None,
    "wanted_gib": 20.0,
    "hbm_gib": 15.75,
    "reason": "the compiler's",
  }
  program = report._with_other_state(refused, 2.0)
  assert program["wanted_gib"] == 22.0
  assert (program["fits"], program["reason"]) == (False, "the compiler's")


@pytest.mark.parametrize("sampler_devices", [0, 4])
def test_state_on_the_devices_that_sample(sampler_devices):
  """They hold the full state, unless they are not the training devices."""
  from experiments.aot import report

  changes = {}
  if sampler_devices:
    changes = {"inference__devices": sampler_devices, "mesh__data": 4}
  e = build.build(small_run.config(**changes))
  beside = report._other_state_gib(e, "rollout")
  optimizer = report.resident(e)["optimizer"]
  assert beside == (
    0 if sampler_devices else pytest.approx(optimizer, rel=1e-3)
  )
  assert report._other_state_gib(e, "train_step") == 0
  # Sampling in another layout makes a copy beside all of the state.
  if not sampler_devices:
    other = build.build(small_run.config(inference__tensor=2))
    assert report._other_state_gib(other, "rollout") > 1.4 * optimizer


@pytest.mark.parametrize(
  "environment",
  [
    {},
    {"XLA_CLIENT_MEM_FRACTION": ".5"},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION": "1"},
  ],
)
def test_a_run_takes_the_share_of_a_gpu_that_programs_must_fit(
  environment, monkeypatch
):
  from experiments.cli import devices

  environ = dict(environment)
  monkeypatch.setattr(devices.os, "environ", environ)
  devices.configure()
  share = str(devices.GPU_MEMORY_FRACTION)
  assert environ == (environment or {"XLA_CLIENT_MEM_FRACTION": share})


@pytest.mark.parametrize(
  ("words", "says"),
  [
    (["--topology=v5:4x4"], "did you mean 'v5p'?"),
    (["--topology=v5e"], "must be a chip and its grid, such as v5e:4x4"),
    (
      ["--topology=h100:9"],
      "must name 1 to 8 GPUs of one node, such as h100:8",
    ),
    (["--topology=h100:8", "--slices=2"], "must be 1 for GPUs"),
    (["--topology=v5e:4x4", "--slices=0"], "slices = 0 must be at least 1"),
    (
      ["--topology=v5e:4x4", "--json=nowhere/a.json"],
      "the folder does not exist",
    ),
    (["--topologie=v5e:4x4"], "Did you mean: topology"),
    ([], "--topology is missing"),
  ],
)
def test_mistakes_are_one_line(words, says, capsys):
  assert command.main(["aot", f"--config={SMOKE}", *words]) == 2
  error = capsys.readouterr().err
  assert says in error
  assert error.count("\n") == 1


@pytest.fixture(scope="module")
def libtpu():
  pytest.importorskip("libtpu", reason="the extra tpu is not installed")


@pytest.fixture(scope="module")
def machine(libtpu):
  from experiments.aot import chips

  return chips.devices("v5e:4x4")


@pytest.mark.long
@pytest.mark.usefixtures("libtpu")
class TestCompiler:
  """Programs of the TPU compiler."""

  def build(self, method, devices):
    """Returns the experiment of a small run with a method."""
    config = small_run.config(
      task=CHAIN,
      method=method,
      rollout__prompts=16,
      evaluation__batch=16,
      evaluation__problems=16,
      mesh__data=4,
      mesh__fsdp=4,
      model__dtype="bfloat16",
      model__remat="full",
    )
    e = build.build(config, devices)
    assert e.model.attention == "splash"
    return e

  @pytest.mark.parametrize("method", HEADLINE[1:])
  def test_every_headline_method_compiles(self, method, machine, monkeypatch):
    """Only the first two programs are compiled if one of them does not fit."""
    from experiments.aot import report

    chip, devices = machine
    e = self.build(method, devices)
    monkeypatch.setattr(report, "_other_state_gib", lambda *_: 16.0)
    part = report.analyse(e, chip, lambda _: None, {}, all_programs=False)
    assert list(part["programs"]) == ["rollout", "train_step"]
    assert not part["fits"]
    gradients = part["programs"]["train_step"]["collectives"]
    assert {"all-reduce", "reduce-scatter"} & set(gradients)

  def test_all_programs_of_a_run_compile(self, machine):
    from experiments.aot import report

    chip, devices = machine
    e = self.build(HEADLINE[0], devices)
    analysis = report.analyse(e, chip, lambda _: None)
    names = ["rollout", "score", "train_step", "evaluation"]
    assert list(analysis["programs"]) == names
    assert list(analysis["seconds"]) == list(analysis["flops"]) == names[:3]
    assert analysis["fits"]
    assert not fit.change(e, analysis)
    for name, program in analysis["programs"].items():
      assert 0 < program["peak_gib"] < program["hbm_gib"], name
      assert program["compile_s"] > 0
    gradients = analysis["programs"]["train_step"]["collectives"]
    assert {"all-reduce", "reduce-scatter"} & set(gradients)
    for kind, sent in gradients.items():
      # A ring of 4 devices sends 2 * 3/4 of an all-reduce's result and 3 times
      # a reduce-scatter's; a larger ring sends more.
      minimum = {"all-reduce": 1.5, "reduce-scatter": 3}.get(kind, 0)
      assert sent["wire"] >= minimum * sent["bytes"], kind
    json.dumps(analysis, allow_nan=False)
    parameters = sum(
      np.prod(leaf.shape)
      for leaf in jax.tree.leaves(placement.abstract_state(e).params)
    )
    gib = 4 * parameters / 2**30
    assert gib / 16 < analysis["resident_gib"]["parameters"] < gib
    low, high = analysis["step_seconds"]
    assert 0 < low < high
    # While sampling, the moments and a reference take memory too.
    resident, rollout = (
      analysis["resident_gib"],
      analysis["programs"]["rollout"],
    )
    other = resident["optimizer"] + resident["parameter_sets"]
    assert rollout["beside_gib"] == pytest.approx(other, rel=1e-3)
    assert analysis["programs"]["train_step"]["beside_gib"] == 0

  def test_the_compiler_refuses_what_does_not_fit(self):
    """It accepts a program for which its memory analysis states too much."""
    from experiments.aot import chips, report

    chip, devices = chips.devices("v5e:2x2")
    one_device = jax.sharding.SingleDeviceSharding(devices[0])

    def loss(params, x):
      layer = jax.checkpoint(lambda x, w: (jnp.tanh(x @ w), None))
      return (jax.lax.scan(layer, x, params)[0] ** 2).sum()

    def train_step(params, momentum, batches):
      total, _ = jax.lax.scan(
        lambda total, x: (total + jax.grad(loss)(params, x), None),
        jnp.zeros_like(params),
        batches,
      )
      return params - momentum, 0.9 * momentum + total

    def compile_step(layers):
      params, batches = (
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=one_device)
        for shape in ((layers, 4096, 4096), (8, 128, 4096))
      )
      jitted = jax.jit(train_step, donate_argnums=(0, 1))
      lowered = jitted.lower(params, params, batches)
      return lowered.compile(compiler_options=report.OPTIONS["tpu"])

    # Parameters, momentum, gradient and sum take 1/4 GiB for each layer.
    assert chip.memory / chips.GIB == 15.75
    accepted = compile_step(60)
    analysis = accepted.memory_analysis()
    counted = analysis.argument_size_in_bytes + analysis.temp_size_in_bytes
    assert counted > chip.memory
    assert report.peak_bytes(accepted, chip, "tpu") == chip.memory
    with pytest.raises(jax.errors.JaxRuntimeError, match="exceeds available"):
      compile_step(64)

  @pytest.mark.parametrize("chip", ["v4", "v5p"])
  def test_a_chip_of_two_cores_is_one_device(self, chip):
    from experiments.aot import chips

    _, devices = chips.devices(f"{chip}:2x2x1")
    assert len(devices) == 4
    sharding.make_mesh(data=2, fsdp=2, devices=devices)

  def test_a_chip_may_be_two_devices(self):
    """Its compiler ends the process without the options of the chip."""
    from experiments.aot import chips, report

    chip, devices = chips.devices("tpu7x:2x2x1")
    assert len(devices) == 8
    config = small_run.config(
      task=CHAIN,
      mesh__data=2,
      mesh__fsdp=4,
      model__dtype="bfloat16",
      model__remat="full",
    )
    analysis = report.analyse(
      build.build(config, devices), chip, lambda _: None
    )
    assert analysis["fits"]

  def test_slices_copy_parameters_and_share_prompts(self):
    from experiments.aot import chips, report

    chip, devices = chips.devices("v5e:2x2", slices=2)
    assert len(devices) == 8
    config = small_run.config(
      task=CHAIN,
      mesh__data=1,
      mesh__fsdp=2,
      mesh__context=2,
      model__dtype="bfloat16",
      model__remat="full",
    )
    e = build.build(config, devices)
    assert e.model.attention == "blocked"
    shape = {name: size for name, size in e.mesh.shape.items() if size > 1}
    assert shape == {"replica": 2, "fsdp": 2, "context": 2}
    slices = np.vectorize(lambda device: device.slice_index)(e.mesh.devices)
    for number, inside in enumerate(slices):
      assert (inside == number).all()
    lines, compiled = [], {}
    analysis = report.analyse(e, chip, lines.append, compiled)
    assert analysis["fits"]
    assert analysis["programs"]["train_step"]["collectives"]
    # A program that a change does not affect is not compiled again.
    lines.clear()
    config.rollout.rows = 2
    other = report.analyse(
      build.build(config, devices), chip, lines.append, compiled
    )
    compiling = [line for line in lines if line.endswith(": compiling")]
    assert compiling == ["rollout: compiling"]
    for name, program in other["programs"].items():
      same = program == analysis["programs"][name]
      assert same == (name != "rollout")

  def test_what_is_too_large_says_so_and_why(self, tmp_path, capsys):
    out = tmp_path / "report.json"
    words = {
      "topology": "v5e:4x4",
      "json": out,
      "config.model.width": 8192,
      "config.model.mlp_width": 65536,
      "config.model.layers": 8,
      "config.model.remat": "full",
      "config.mesh.fsdp": 1,
      "config.rollout.prompts": 16,
      "config.evaluation.batch": 16,
      "config.evaluation.problems": 16,
    }
    flags = [f"--{name}={value}" for name, value in words.items()]
    assert command.main(["aot", f"--config={SMOKE}", *flags]) == 1
    analysis = json.loads(out.read_text())
    program = analysis["programs"]["train_step"]
    assert not program["fits"]
    assert program["wanted_gib"] > program["hbm_gib"]
    assert "exceed" in program["reason"].lower()
    assert "hbm" in program["reason"].lower()
    assert analysis["advice"] == [
      "--config.mesh.data=1",
      "--config.mesh.fsdp=16",
    ]
    printed = capsys.readouterr().out
    assert "does not fit" in printed
    assert "try --config.mesh.data=1 --config.mesh.fsdp=16" in printed


def test_a_node_of_gpus_with_the_gpu_compiler():
  pytest.importorskip("jax_plugins.xla_cuda12", reason="no extra gpu-aot here")
  from experiments.aot import chips, report

  chip, devices = chips.devices("h100:8")
  assert len(devices) == 8
  config = small_run.config(
    task=CHAIN, mesh__data=2, mesh__fsdp=2, mesh__tensor=2
  )
  config.model.vocab_size = 26
  e = validate.check_and_build(config, devices=devices, memory=chip.memory)
  assert e.model.attention == "blocked"
  analysis = report.analyse(e, chip, lambda _: None)
  for name, program in analysis["programs"].items():
    assert program["fits"], (name, program["reason"])
    assert 0 < program["peak_gib"] < program["hbm_gib"]
  assert analysis["programs"]["train_step"]["collectives"]
