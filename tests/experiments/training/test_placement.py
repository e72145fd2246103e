"""The training state of an experiment, on its mesh."""

import dataclasses

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.training import initial_state, placement, prng_keys
from experiments.training.experiment import KINDS
from models import lora, policy, sharding, transformer
from rl import step


@pytest.fixture(scope="module")
def small():
  return small_run.experiment()


def changed(e, **model):
  """The experiment with another shape of the decoder."""
  model = dataclasses.replace(e.model, **model)
  return dataclasses.replace(e, model=model, policy=policy.bind(model))


def keys_of(e):
  """Returns the keys of the initial parameters and of the run."""
  seed_key = prng_keys.from_seed(e.config.seed)
  return jax.random.split(
    jax.random.fold_in(seed_key, KINDS.index(e.config.kind))
  )


def assert_equal(one, other):
  jax.tree.map(np.testing.assert_array_equal, one, other)


def test_parameters_and_samples_have_keys_of_their_own(small):
  state = placement.init_state(small)
  params_key, run_key = keys_of(small)
  np.testing.assert_array_equal(
    *map(jax.random.key_data, (state.carried.key, run_key))
  )
  init = jax.jit(lambda key: transformer.init(small.model, key))
  assert_equal(state.params, init(params_key))
  assert state.carried.frozen == {}


def test_heads_that_a_folder_lacks_are_initialised(small):
  """It has the head "a" alone, which is kept."""
  e = changed(small, extra_heads=(("a", 2), ("b", 3)))
  init = jax.jit(lambda key: transformer.init_heads(e.model, key))
  expected = init(keys_of(e)[0])["heads"]
  shapes = jax.eval_shape(
    lambda key: transformer.init(e.model, key), jax.random.key(0)
  )
  params = jax.tree.map(lambda x: np.full(x.shape, 0.5, x.dtype), shapes)
  del params["heads"]["b"]
  state = placement.init_state(e, params)
  assert_equal(state.params["heads"]["a"], params["heads"]["a"])
  assert_equal(state.params["heads"]["b"], expected["b"])


def test_adapters_that_a_folder_lacks_are_initialised(small):
  e = changed(small, lora_rank=2)
  assert initial_state.model_without_lora(e) == small.model
  init = jax.jit(lambda key: lora.init(e.model, key))
  shapes = jax.eval_shape(
    lambda key: transformer.init(small.model, key), jax.random.key(0)
  )
  params = jax.tree.map(lambda x: np.full(x.shape, 0.5, x.dtype), shapes)
  state = placement.init_state(e, params)
  assert_equal(state.params, init(keys_of(e)[0]))
  assert_equal(state.carried.frozen, params)


def test_checkpoints_have_no_parameters_that_are_not_trained():
  carried = step.Carried("key", "memory", {"b": 4}, {"m": 5})
  state = step.State(0, {"prm": 1}, {"ref": 2}, carried)
  part = placement.saved_part(state)
  assert part == state.replace(carried=step.Carried("key", "memory"))


@pytest.mark.several_devices
def test_states_of_methods_and_samplers_are_replicated():
  """They have any names; parameters and optimizers follow the rules."""
  mesh = sharding.make_mesh(fsdp=2, devices=jax.devices()[:2])
  params = {"layers": {"mlp": {"up": {"kernel": np.zeros((1, 4, 4))}}}}
  other = {"any": np.zeros((4, 4))}
  state = step.State(
    step=np.int32(0),
    learners={"policy": step.Learner(params, {"mu": params}, other)},
    parameter_sets={"ref": params},
    carried=step.Carried(np.zeros(2, np.uint32), other, params, {"m": params}),
  )
  copied, split = (
    jax.NamedSharding(mesh, spec)
    for spec in (jax.P(), jax.P(None, "fsdp", "tensor"))
  )
  params = {"layers": {"mlp": {"up": {"kernel": split}}}}
  assert placement.shardings_on(state, mesh) == step.State(
    step=copied,
    learners={"policy": step.Learner(params, {"mu": params}, {"any": copied})},
    parameter_sets={"ref": params},
    carried=step.Carried(copied, {"any": copied}, params, {"m": params}),
  )
