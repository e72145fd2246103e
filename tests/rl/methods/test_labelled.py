"""Verdicts of a fraction of the prompts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy, worked_example

from rl import methods, transforms
from rl.methods.process import labels
from rl.transforms import among, chain

FORMS = ("min_form", "sum_form", "strict_min_form")
every_form = pytest.mark.parametrize("name", FORMS)


def chosen(ids, fraction):
  ids = jnp.asarray(ids, jnp.int32)
  rollout = tabular_policy.rollout(p=2, s=2, ragged=False).replace(
    prompt_ids=ids, sample_mask=jnp.ones((len(ids), 2), bool)
  )
  where = np.asarray(labels.labelled(fraction)(rollout))
  assert (where == where[:, :1]).all(), "whole prompts"
  return where[:, 0]


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("stride", [1, 7, 1024])
def test_it_is_the_fraction_asked_for(fraction, stride):
  """The share of 10000 ids, however spaced, is within three standard errors."""
  n = 10_000
  actual = chosen(stride * np.arange(n), fraction).mean()
  assert abs(actual - fraction) < 3 * np.sqrt(fraction * (1 - fraction) / n)


def test_none_and_all():
  ids = np.arange(-500, 500)
  assert not chosen(ids, 0.0).any()
  assert chosen(ids, 1.0).all()


def test_a_prompt_is_always_or_never_chosen():
  """At every position, beside all other prompts, and in larger fractions."""
  ids = np.arange(1000)
  mixed = np.random.default_rng(0).permutation(ids)[:300]
  some = chosen(ids, 0.3)
  np.testing.assert_array_equal(chosen(mixed, 0.3), some[mixed])
  assert not (some & ~chosen(ids, 0.4)).any()


def test_neighbours_are_chosen_independently():
  """The chance of two in a row is the square, within three standard errors."""
  some = chosen(np.arange(10_001), 0.3)
  both = (some[1:] & some[:-1]).mean()
  assert abs(both - 0.09) < 3 * np.sqrt(0.09 * 0.91 / 10_000) * np.sqrt(2)


@pytest.mark.parametrize(("fraction", "nearest"), [(-0.1, "0"), (10.0, "1")])
def test_what_is_no_fraction_is_refused(fraction, nearest):
  with pytest.raises(ValueError, match=f"from 0 to 1; .* is {nearest}$"):
    labels.labelled(fraction)


def test_the_fraction_is_printed():
  m = methods.get("min_form", verifiable=10.0, labelled=0.1)
  assert "among(labelled(0.1), among(known_verdict, " in str(m)


@functools.cache
def compiled(name, hyper):
  t = methods.get(name, **dict(hyper)).advantage
  return jax.jit(lambda r: t.apply(None, r, t.init())[0])


def advantages(name, rollout, **hyper):
  return np.asarray(compiled(name, tuple(sorted(hyper.items())))(rollout))


@pytest.fixture(scope="module")
def rollout():
  """Eight prompts, known and unknown verdicts, ids unlike the positions."""
  base = tabular_policy.rollout(p=8)
  unknown = np.random.default_rng(1).random(base.correct.shape) < 0.2
  return base.replace(
    prompt_ids=100 + 3 * jnp.arange(8),
    correct=jnp.where(unknown, -1, base.correct).astype(jnp.int8),
  )


@every_form
def test_no_label_is_process_only_and_every_label_is_no_restriction(
  name, rollout
):
  process = advantages(name, rollout)
  none = advantages(name, rollout, verifiable=2.0, labelled=0.0)
  np.testing.assert_array_equal(none, process)
  outcome = among(
    transforms.known_verdict,
    chain(
      transforms.verdicts(), transforms.leave_one_out(), transforms.broadcast()
    ),
  )
  want = process + 2.0 * worked_example.apply(outcome, rollout)
  every = advantages(name, rollout, verifiable=2.0)
  np.testing.assert_allclose(every, want, atol=1e-6)
  explicit = advantages(name, rollout, verifiable=2.0, labelled=1.0)
  np.testing.assert_array_equal(explicit, every)


@pytest.mark.parametrize(
  "name", [*FORMS, "clip_delta", "pure_openrlhf", "pure_verl"]
)
def test_a_part_of_the_labels_is_the_whole_credit_of_that_part(name, rollout):
  """This holds before whitening, which is across prompts."""
  hyper = {} if name == "clip_delta" else {"verifiable": 2.0}

  def run(fraction):
    t = methods.get(name, **hyper, labelled=fraction).advantage
    if name.startswith("pure"):
      t = chain(*[stage for _, stage in t.links][:-1])
    return np.asarray(jax.jit(lambda r: t.apply(None, r, t.init())[0])(rollout))

  none, some, every = map(run, (0.0, 0.5, 1.0))
  with_label = chosen(rollout.prompt_ids, 0.5)
  assert 0 < with_label.sum() < 8
  np.testing.assert_array_equal(some[with_label], every[with_label])
  np.testing.assert_array_equal(some[~with_label], none[~with_label])
  assert (every != none).any((1, 2))[~with_label].any()


@every_form
def test_labels_without_process_are_rloo(name, rollout):
  bare = rollout.replace(
    step_scores=jnp.zeros_like(rollout.step_scores),
    correct=jnp.maximum(rollout.correct, 0),
  )
  bare = bare.replace(scores=bare.correct.astype(jnp.float32))
  t = chain(methods.get("rloo").advantage, transforms.broadcast())
  want = worked_example.apply(t, bare)
  valid = np.asarray(bare.valid("token"))
  got = advantages(name, bare, verifiable=1.0, labelled=1.0)
  np.testing.assert_allclose(got[valid], want[valid], atol=1e-6)
  half = advantages(name, bare, verifiable=1.0, labelled=0.5)
  with_label = chosen(bare.prompt_ids, 0.5)[:, None, None]
  np.testing.assert_array_equal(half, np.where(with_label, got, 0.0))
