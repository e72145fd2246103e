"""Groups for tests of process credit: step lengths and scores -> a rollout.

The worked example is the card's: three samples of at most L = 8 tokens, with
steps of 3 2 3, 2 4 and 2 2 2 2 tokens.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from helpers import tabular_policy
from helpers.worked_example import apply
from rewards.process.segmentation import segment_steps, step_mask
from rl import methods, transforms
from rl.transforms import chain

SEP, EOS, WORD = 7, 1, 5
GLUED = 9  # a full stop and a blank line in one token
L, K = 8, 4
WORKED_STEPS = ((3, 2, 3), (2, 4), (2, 2, 2, 2))
WORKED_SCORES = ((0.9, 0.2, 0.7), (0.8, 0.6), (-0.5, 0.9, 0.9, 0.9))
WORKED_CORRECT = (1, 1, 0)
WHITENED = ("pure_verl", "pure_openrlhf")
close = functools.partial(np.testing.assert_allclose, atol=1e-6, rtol=0)
LAYOUTS = [
  ("min_form", {}),
  ("sum_form", {}),
  ("strict_min_form", {}),
  ("pure_verl", {"verifiable": 0.0}),
  ("pure_openrlhf", {"verifiable": 0.0, "baseline": "step"}),
]
RELEASED = [
  ("pure_verl", {}),
  ("pure_openrlhf", {}),
  ("pure_openrlhf", {"baseline": "step"}),
]


def group(steps, scores, correct=None, capacity=L, k=K):
  """One prompt: step lengths and scores per sample, as text with separators.

  Every step but the last ends at a separator; padding holds separators too.
  """
  n = len(steps)
  completions = np.full((1, n, capacity), SEP)
  values = np.full((1, n, k), np.nan)
  for i, (sizes, s) in enumerate(zip(steps, scores, strict=True)):
    ends = np.cumsum(sizes, dtype=int)
    completions[0, i, : sum(sizes)] = WORD
    completions[0, i, ends[:-1] - 1] = SEP
    values[0, i, : len(s)] = s
  lengths = jnp.array([[sum(sizes) for sizes in steps]])
  completions = jnp.asarray(completions)
  ids = segment_steps(completions, lengths, (SEP,), k)
  base = tabular_policy.rollout(p=1, s=n, t=capacity, k=1, ragged=False)
  return base.replace(
    tokens=base.tokens.replace(
      completions=completions, lengths=lengths, mask=ids >= 0
    ),
    correct=jnp.array([correct or [0] * n], jnp.int8),
    scores=jnp.array([correct or [0] * n], jnp.float32),
    step_ids=ids,
    step_scores=jnp.asarray(values, jnp.float32),
    step_mask=step_mask(ids, k),
  )


@functools.cache
def compiled(name, whitened, hyper):
  advantage = methods.get(name, **dict(hyper)).advantage
  if name in WHITENED and not whitened:
    *before, last = [stage for _, stage in advantage.links]
    assert "whiten" in str(last)
    advantage = chain(*before)
  return jax.jit(lambda r: advantage.apply(None, r, advantage.init())[0])


def advantages(name, rollout, whitened=False, **hyper):
  """`[P, S, T]`; without the last stage where that is the whitening."""
  whitened = whitened and name in WHITENED
  run = compiled(name, whitened, tuple(sorted(hyper.items())))
  return np.asarray(run(rollout))


def value(t, rollout):
  return apply(t, rollout)


def worked_example():
  return group(WORKED_STEPS, WORKED_SCORES, WORKED_CORRECT)


def prompts(*groups):
  """Groups of one size, of several prompts, as one rollout."""
  complete = jax.tree.map(
    lambda *x: jnp.concatenate(x),
    *(g.replace(step=jnp.zeros((1,), jnp.int32)) for g in groups),
  )
  return complete.replace(step=jnp.zeros((), jnp.int32))


@functools.partial(jax.jit, static_argnums=1)
def returns(rollout, temperature):
  t = chain(
    transforms.step_scores(),
    transforms.min_form_rewards(temperature),
    transforms.place_at_step_ends(),
    transforms.returns_to_go(),
  )
  return t.apply(None, rollout, t.init())[0]
