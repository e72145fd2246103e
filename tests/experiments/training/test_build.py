"""The pieces that a config stands for."""

import importlib
import math
import types

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments import configs, tasks
from experiments.configs import defaults, fitted_reward, judged, small_judge
from experiments.configs import method as method_configs
from experiments.training import (
  build,
  config_keys,
  decoder,
  drawing,
  optimizers,
  placement,
)
from experiments.training.experiment import KINDS
from experiments.training_run import validate
from rl import methods
from rl.sampling import generation

METHOD, REWARD, RECIPE = (
  f"experiments/configs/{file}.py:" for file in ("method", "reward", "recipe")
)
# Configs that start from an earlier run (`configs/test_tulu3.py`,
# `configs/test_fitted_reward.py` and `configs/test_small_judge.py`).
LATER_STAGES = [
  *(f"experiments/configs/tulu3.py:{name}" for name in ("dpo", "rlvr")),
  *(
    f"experiments/configs/fitted_reward.py:{name}"
    for name in fitted_reward.names()
  ),
  *(f"experiments/configs/programs.py:{x}" for x in ("prlcoder", "outcome")),
  *(f"experiments/configs/small_judge.py:{x}" for x in small_judge.names()),
]
# Configs of one file and of a task that needs no data: they are validated in
# full. Methods and rewards have tests of their own.
EMBEDDED = [
  text
  for text in configs.listing()
  if not text.startswith((METHOD, REWARD, RECIPE))
  and "gsm8k" not in text
  and "smollm2" not in text  # `configs/test_smollm2.py`
  and text not in LATER_STAGES
]


def load(text):
  """The config that `--config TEXT` loads."""
  file, _, name = text.partition(":")
  module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
  return module.get_config(name) if name else module.get_config()


@pytest.mark.parametrize("text", EMBEDDED)
def test_every_config_can_run(text, tmp_path):
  e = validate.check_and_build(load(text), tmp_path / "run")
  assert e.config.kind in KINDS
  assert not list(tmp_path.iterdir())
  path, _, name = text.partition(":")
  module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
  is_named = module is judged and f"`{name}`" in module.__doc__
  assert is_named or f"--config {text} " in module.__doc__


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_a_config_that_can_run(name):
  """The method, at the settings of its config, on the embedded task."""
  config = method_configs.get_config(name)
  config.model.layers = 1  # of many, each would be traced
  e = validate.check_and_build(config)
  assert e.method.name.startswith(name)


def test_a_base_is_of_the_same_task_seed_and_model():
  """One override on the command line changes both."""
  config = defaults.with_base(defaults.rl(), defaults.supervised())
  config.task, config.seed, config.model.width = "chain", 5, 32
  assert (config.base.task, config.base.seed) == ("chain", 5)
  assert config.base.model.width == 32
  config.base.model = defaults.model(width=16)
  with pytest.raises(ValueError, match=r"base\.model .*width=16.*width=32"):
    validate.check_and_build(config, "/no/such/run")


def test_a_vocabulary_of_zero_is_the_tasks():
  config = defaults.rl()
  task = build.make_task(config)
  assert decoder.make(config, task).vocab_size == task.vocab_size
  config.model.vocab_size = 32  # room for rows that split over a mesh
  assert decoder.make(config, task).vocab_size == 32


def test_the_learning_rate_warms_up_and_decays_to_its_floor():
  config = defaults.supervised().optimizer
  config.learning_rate, config.final_scale = 3e-3, 0.1
  config.warmup_steps, config.decay_steps = 50, 250
  _, schedule = optimizers.adamw(config, 1)
  at = {step: float(schedule(step)) for step in (0, 25, 50, 150, 250, 999)}
  assert at[0] == 0.0
  assert math.isclose(at[25], 1.5e-3, rel_tol=1e-6)
  assert math.isclose(at[50], 3e-3, rel_tol=1e-6)
  halfway = 3e-3 * (1 + 0.1) / 2  # of a cosine, its mean
  assert math.isclose(at[150], halfway, rel_tol=1e-6)
  assert math.isclose(at[250], 3e-4, rel_tol=1e-6)
  assert at[999] == at[250]


def test_a_linear_schedule_ends_at_its_floor():
  config = defaults.preferences(steps=50).optimizer
  assert (config.schedule, config.warmup_steps) == ("linear", 5)
  config.learning_rate, config.final_scale = 1e-3, 0.2
  _, schedule = optimizers.adamw(config, 1)
  rates = [float(schedule(step)) for step in (0, 5, 14, 50, 99)]
  # 9 of the 45 steps after the warm-up are a fifth of the way to 2e-4.
  np.testing.assert_allclose(rates, [0, 1e-3, 8.4e-4, 2e-4, 2e-4], rtol=1e-6)


def test_the_clip_bounds_what_the_optimiser_sees():
  """Adam does not see the scale of a gradient that is clipped anyway."""
  config = defaults.rl().optimizer
  config.clip_norm = 0.5
  tx, _ = optimizers.adamw(config, 1)
  params = {"w": np.ones(4, np.float32)}
  states = []
  for scale in (10.0, 1000.0):
    grads = {"w": np.full(4, scale, np.float32)}
    states.append(tx.update(grads, tx.init(params), params)[1])
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), *states
  )


def test_imitation_is_at_temperature_one():
  for kind in ("supervised", "preferences"):
    config = small_run.config(kind, rollout__temperature=0.5)
    assert build.build(config).plan.temperature == 1.0
  config = small_run.config("rl", rollout__temperature=0.5)
  assert build.build(config).plan.temperature == 0.5


@pytest.mark.several_devices
def test_the_state_is_where_it_was_said_to_be():
  config = small_run.config(
    method="grpo(beta=0.1)",
    mesh={"data": 2, "fsdp": 2, "tensor": 2},
    model__vocab_size=26,
  )
  e = build.build(config)
  state = placement.init_state(e)
  output = jax.tree.map(
    lambda x: (x.shape, x.dtype, x.sharding), placement.abstract_state(e)
  )
  result = jax.tree.map(lambda x: (x.shape, x.dtype, x.sharding), state)
  assert output == result
  assert any(
    leaf.addressable_shards[0].data.size == leaf.size // 4
    for leaf in jax.tree.leaves(state.policy.opt_state)
  )
  # The reference starts as the policy, in memory of its own.
  jax.tree.map(
    np.testing.assert_array_equal, state.parameter_sets["ref"], state.params
  )


def test_a_schedule_counts_training_steps_whatever_the_updates_of_one():
  """The rate that the optimiser uses, read off the size of its update."""
  config = defaults.supervised().optimizer
  config.clip_norm, config.warmup_steps, config.decay_steps = 0.0, 0, 10
  params, grads = {"w": np.zeros(1)}, {"w": np.ones(1)}
  sizes = {}
  for updates in (1, 2):
    tx, schedule = optimizers.adamw(config, updates)
    state, sizes[updates] = tx.init(params), []
    for _ in range(10 * updates):
      delta, state = tx.update(grads, state, params)
      sizes[updates].append(-float(delta["w"][0]))
  steps = [float(schedule(i)) for i in range(10)]
  np.testing.assert_allclose(sizes[1], steps, rtol=1e-4)
  np.testing.assert_allclose(sizes[2], np.repeat(steps, 2), rtol=1e-4)


def test_a_run_and_its_base_share_a_seed_and_not_their_problems():
  keys = {}
  for kind in KINDS:
    e = small_run.experiment(kind)
    state = placement.init_state(e)
    problem_key, _ = jax.random.split(state.carried.key)
    keys[kind] = np.asarray(e.task.train(problem_key, 0, 32).ids)
  assert (keys["rl"] != keys["supervised"]).any()


def test_a_sample_without_a_score_is_left_out_and_not_taken_for_zero():
  e = small_run.experiment()
  P, S, T = small_run.PROMPTS, small_run.SAMPLES, e.sampling.max_tokens
  problems = e.task.train(jax.random.key(0), 0, P)
  samples = generation.Samples(
    completions=np.zeros((P, S, T), np.int32),
    lengths=np.ones((P, S), np.int32),
    log_probs=np.zeros((P, S, T), np.float32),
    finished=np.ones((P, S), bool),
  )
  scores = np.tile([1.0, 1.0, 1.0, 0.0], (P, 1))
  judged = tasks.Judged(
    scores=scores,
    correct=np.tile(np.array([1, 1, 1, -1], np.int8), (P, 1)),
    answer_ids=np.zeros((P, S), np.int32),
    scored=scores > 0,
  )
  keys = generation.prompt_keys(jax.random.key(0), 0, problems.ids)
  rollout = drawing.assemble(problems, samples, judged, keys, 0)
  grpo = methods.get("grpo")
  advantages, _ = grpo.advantage.apply(None, rollout, grpo.advantage.init())
  assert not np.asarray(advantages).any()


def test_a_config_of_a_notebook_is_searched_for_typos_too():
  config = small_run.config()
  config.rollout.sampels = 8
  with pytest.raises(ValueError, match="'sampels'; did you mean 'samples'"):
    validate.check_and_build(config, "/no/such/run")


@pytest.mark.parametrize("text", configs.listing())
def test_no_config_holds_a_key_that_nothing_reads(text):
  config_keys.check(load(text))


def test_samples_of_training_keep_the_support_of_each_token():
  config = small_run.config(
    rollout__max_tokens=3, rollout__top_k=5, rollout__temperature=0.5
  )
  task = tasks.get("countdown", count=2)
  sampling = build.make_sampling(config, task)
  assert sampling.returns_support
  assert (sampling.samples, sampling.max_tokens) == (small_run.SAMPLES, 3)
  assert (sampling.top_k, sampling.temperature) == (5, 0.5)
  config.rollout.max_tokens = 0
  sampling = build.make_sampling(config, task)
  assert sampling.max_tokens == task.completion_length


@pytest.mark.several_devices
def test_memory_is_that_of_the_first_device_of_this_process(monkeypatch):
  requests = []

  def make_meshes(config, model, plan, devices, memory):
    requests.append((devices, memory))
    return "mesh", "sampling mesh"

  monkeypatch.setattr(build.device_mesh, "make_meshes", make_meshes)
  monkeypatch.setattr(
    build.device_mesh, "device_memory", lambda device: device.id + 0.5
  )
  config, devices = small_run.config(), jax.devices()
  e = build.build(config)
  assert (e.mesh, e.sampling_mesh) == ("mesh", "sampling mesh")
  build.build(config, memory=3.0)
  build.build(config, devices[1:2])
  assert requests == [
    (devices, devices[0].id + 0.5),
    (devices, 3.0),
    (devices[1:2], None),
  ]


@pytest.mark.parametrize(
  ("prompts", "samples", "tokens", "nearest"),
  [
    (1, 1, 2**31 - 1, None),
    (1, 1, 2**31, 2**31 - 1),
    (2, 4, 2**28, 2**28 - 1),
    (2**20, 2**20, 2, 1),
  ],
)
def test_the_tokens_of_a_rollout_have_numbers_of_32_bits(
  prompts, samples, tokens, nearest
):
  e = types.SimpleNamespace(
    is_rl=True,
    config=types.SimpleNamespace(
      rollout=types.SimpleNamespace(prompts=prompts)
    ),
    sampling=types.SimpleNamespace(samples=samples, max_tokens=tokens),
  )
  if nearest is None:
    build.check_rollout_size(e)
    return
  with pytest.raises(ValueError, match=f"nearest: {nearest}$"):
    build.check_rollout_size(e)
