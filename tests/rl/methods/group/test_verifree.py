"""Worked example of VeriFree, and its gradient by enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods, types

SCORES = np.array([0.09, 9, 0.2, 0.0])  # the second sample does not exist
EXISTS = np.array([1, 0, 1, 1], bool)
# Tokens of the thoughts, and of the reference after them.
THOUGHTS, REFERENCE = np.array([2, 1, 0, 1]), 2
T = np.arange(4)
LOG_PROBS = np.log(np.linspace(0.2, 0.8, 16).reshape(1, 4, 4))


def rollout():
  example = clip_example.rollout(SCORES)
  lengths = (THOUGHTS + REFERENCE)[None]
  is_reference = (THOUGHTS[:, None] <= T) & (lengths[..., None] > T)
  view = types.Tokens(
    prompts=example.tokens.prompts,
    prompt_mask=example.tokens.prompt_mask,
    completions=jnp.zeros((1, 4, 4), jnp.int32),
    lengths=jnp.asarray(lengths, jnp.int32),
    mask=jnp.asarray(is_reference),
  )
  return example.replace(views={"reference": view}), is_reference[0]


@pytest.mark.worked_example("method:verifree")
def test_loss_of_thoughts_and_references():
  """R minus the mean of the others at thoughts, R at references; 3 samples."""
  example, is_reference = rollout()
  m = methods.get("verifree")
  advantages = np.array([0.09 - 0.1, 0, 0.2 - 0.045, -0.145])
  scored = np.asarray(example.mask)[0]  # up to three tokens of a sample
  width = scored.shape[-1]
  is_thought = (T[:width] < THOUGHTS[:, None]) & scored
  at_thoughts = advantages[:, None] * is_thought
  clip_example.check_advantages(m, example, at_thoughts[None])
  weights = np.zeros((4, 4))
  weights[:, :width] += at_thoughts
  weights += np.where(EXISTS, SCORES, 0)[:, None] * is_reference
  expected = -(weights * LOG_PROBS[0]).sum() / 3
  loss, slopes = worked_example.loss(m, example, LOG_PROBS)
  assert loss == pytest.approx(expected, rel=1e-5)
  np.testing.assert_allclose(slopes[0], -weights / 3, rtol=1e-5, atol=1e-7)
  # The first sample has two tokens of thought, and the answer at the third.
  assert is_thought[0].tolist() == [True, True, False]


def test_a_thought_ends_where_the_reference_begins():
  """The view has a token after the reference that is not scored, as an EOS."""
  example, _ = rollout()
  view = example.views["reference"]
  longer = example.replace(
    views={"reference": view.replace(lengths=view.lengths + 1)}
  )
  m = methods.get("verifree")
  expected = worked_example.advantages(m, example)
  np.testing.assert_array_equal(worked_example.advantages(m, longer), expected)


def test_it_is_the_exact_gradient():
  """E_z[p grad log pi(z) + p grad log p(a|z)] is grad E_z[p], enumerated.

  The leave-one-out baseline must not move it: all pairs of thoughts.
  """
  rng = np.random.default_rng(1)
  params = {
    "thought": jnp.asarray(rng.normal(size=3), jnp.float32),
    "answer": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32),
  }

  def logs(params):
    answers = jax.nn.log_softmax(params["answer"], -1)
    return jax.nn.log_softmax(params["thought"]), answers[:, 2]

  def value(params):
    return jnp.sum(jnp.exp(sum(logs(params))))

  m = methods.get("verifree")

  def estimate(params, rows):
    thought, reference = logs(params)
    p = jax.lax.stop_gradient(jnp.exp(reference[rows]))
    example = worked_example.rollout(np.ones((1, 2)), np.ones((1, 2), int))
    example = example.replace(scores=p[None])
    # The thought is one token, and so is the reference after it.
    view = example.tokens.replace(
      lengths=jnp.full((1, 2), 2), mask=jnp.array([[[False, True]] * 2])
    )
    example = example.replace(views={"reference": view})
    a, _ = m.advantage.apply(None, example, m.advantage.init())
    return jnp.mean(a[0, :, 0] * thought[rows] + p * reference[rows])

  exact = jax.grad(value)(params)
  chance = np.exp(logs(params)[0])
  gradient = jax.jit(jax.grad(estimate))
  total = jax.tree.map(jnp.zeros_like, exact)
  for pair in itertools.product(range(3), repeat=2):
    one = gradient(params, jnp.array(pair))
    weight = chance[pair[0]] * chance[pair[1]]
    total = jax.tree.map(lambda a, b, w=weight: a + w * b, total, one)
  for ours, theirs in zip(
    jax.tree.leaves(total), jax.tree.leaves(exact), strict=True
  ):
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
