"""Every draw has keys of its own, by prompt."""

import jax
import numpy as np

from rl.sampling import random_keys


def uniforms(keys):
  return np.asarray(jax.vmap(jax.random.uniform)(keys))


def test_draws_of_two_names_are_independent_of_each_other_and_of_the_key():
  n = 20000
  keys = jax.random.split(jax.random.key(0), n)
  named = [
    uniforms(random_keys.keys(keys, name)) for name in ("prof", "pf_ppo")
  ]
  apart = np.corrcoef([*named, uniforms(keys)]) - np.eye(3)
  assert np.abs(apart).max() < 5 / np.sqrt(n)


def test_a_prompts_draw_is_the_same_in_every_batch():
  keys = jax.random.split(jax.random.key(1), 6)
  full = uniforms(jax.jit(random_keys.keys, static_argnums=1)(keys, "coins"))
  part = uniforms(random_keys.keys(keys[2:4], "coins"))
  np.testing.assert_array_equal(full[2:4], part)
