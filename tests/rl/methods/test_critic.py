"""Advantages of a learned critic, and what the critic learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy, worked_example

from rl import method_loss, methods, scoring, types
from rl.transforms import chain
from rl.update_plan import Plan

close = functools.partial(np.testing.assert_allclose, atol=1e-6)


def worked(mask=(1, 1, 1), values=(0.5, 0.6, 0.8), score=1.0):
  """One real sample with a score at its last token and the critic's values."""
  base = tabular_policy.rollout(p=1, s=2, t=len(mask), k=1, ragged=False)
  rows = jnp.array([[values] * 2], jnp.float32)
  return base.replace(
    tokens=base.tokens.replace(mask=jnp.array([[mask] * 2], bool)),
    sample_mask=jnp.array([[True, False]]),
    scores=jnp.full((1, 2), score),
    extras=types.Named({"old/values": rows}),
  )


def targets(m, rollout):
  """The target of the critic, G = A + V."""
  signal = m.loss.terms[-1].signal
  return worked_example.apply(signal, rollout)[0, 0]


def advantage(m, rollout):
  return worked_example.advantages(m, rollout)


@pytest.mark.worked_example("method:ppo")
@pytest.mark.parametrize(
  ("lam", "want"), [(1.0, [0.5, 0.4, 0.2]), (0.95, [0.4705, 0.39, 0.2])]
)
def test_generalised_advantages_worked_by_hand(lam, want):
  """Worked by hand with r = [0, 0, 1] and V = [.5, .6, .8]."""
  rollout = worked()
  m = methods.get("ppo", lam=lam, beta=0.0)
  close(targets(m, rollout) - [0.5, 0.6, 0.8], want)
  whitened = (want - np.mean(want)) / np.std(want, ddof=1)
  close(advantage(m, rollout)[0, 0], whitened, atol=1e-5)


def test_lambda_0_is_the_one_step_error():
  """Targets of TD(0) are r + V of the next state."""
  m = methods.get("ppo", lam=0.0, beta=0.0)
  close(targets(m, worked()), [0.6, 0.8, 1.0])


@pytest.mark.parametrize("name", ["ppo", "vapo"])
def test_tokens_of_others_in_between_change_nothing(name):
  m = methods.get(name, **({"beta": 0.0} if name == "ppo" else {"alpha": 0.9}))
  between = worked((1, 0, 1, 0, 1, 0), (0.5, 9.0, 0.6, np.nan, 0.8, 7.0))
  at = [0, 2, 4]
  close(targets(m, between)[at], targets(m, worked()))
  got = advantage(m, between)[0, 0]
  close(got[at], advantage(m, worked())[0, 0])
  assert not got[[1, 3, 5]].any()


def test_the_penalty_is_paid_where_the_policy_left_the_reference():
  """-beta (log pi_old - log pi_ref) at its token, on top of the score."""
  rollout = worked(values=(0.0, 0.0, 0.0))
  old, ref = jnp.array([[[-1.0, -2.0, -1.5]]]), jnp.array([[[-1.0, -1, -2]]])
  old, ref = jnp.tile(old, (1, 2, 1)), jnp.tile(ref, (1, 2, 1))
  rollout = rollout.replace(
    extras=rollout.extras.update({"old/log_probs": old, "ref/log_probs": ref})
  )
  # Returns of the rewards [0, .1, 1 - .05] from each token on.
  close(targets(methods.get("ppo", beta=0.1), rollout), [1.05, 1.05, 0.95])


def test_the_critic_is_clipped_only_beyond_the_clip_towards_its_target():
  """The formula of `value_loss` at V_old = 0, G = 1 and -1, clip = .2."""
  term = methods.get("ppo", value_clip=0.2).loss.terms[1]
  values = jnp.array([[[-0.3, -0.1, 0.1, 0.3]]])
  rollout = worked((1,) * 4, (0.0,) * 4)
  for goal, want, moves in (
    (1.0, [1.69, 1.21, 0.81, 0.64], [1, 1, 1, 0]),
    (-1.0, [0.64, 0.81, 1.21, 1.69], [0, 1, 1, 1]),
  ):
    signal = jnp.full((1, 1, 4), goal)

    def loss(v, signal=signal):
      return term.fn(signal, types.Named({"values": v}), rollout)[0]

    close(loss(values)[0, 0], want)
    slope = jax.grad(lambda v: loss(v).sum())(values)
    np.testing.assert_array_equal(np.asarray(slope)[0, 0] != 0, moves)


@pytest.mark.parametrize(
  ("smallest", "largest", "share"), [(0, 19, 0), (21, 40, 50)]
)
def test_the_clipped_share_of_values_does_not_count_rounding(
  smallest, largest, share
):
  """Values move by `smallest` to `largest` hundredths; the clip is 20.

  Targets lie above all values and half of the values move up. Only these can be
  clipped, so the share is 0 or 50 percent.
  """
  term = methods.get("ppo", value_clip=0.2).loss.terms[1]
  tokens = 10_000
  random = np.random.default_rng(0)
  sign = np.where(np.arange(tokens) % 2, 1.0, -1.0)
  old = np.float32(random.normal(0.0, 0.3, tokens))
  value = np.float32(
    old + sign * random.uniform(smallest, largest, tokens) / 100
  )
  signal = np.float32(old + random.uniform(0.5, 1.0, tokens))

  @jax.jit
  def clipped(value, old, signal):
    rollout = worked((1,) * tokens, (0.0,) * tokens)
    rollout = rollout.replace(extras=types.Named({"old/values": old}))
    named = types.Named({"values": value})
    return term.fn(signal, named, rollout)[1]["value/clip_frac"]

  assert 100 * float(np.mean(clipped(value, old, signal))) == share


@pytest.mark.worked_example("method:vapo")
@pytest.mark.parametrize(
  ("length", "lam"), [(10, 0.0), (20, 0.0), (100, 0.8), (1000, 0.98)]
)
def test_the_trace_of_vapo_grows_with_the_length(length, lam):
  """lambda is 1 - 1 / (.05 l), and at least 0, by the trace that it leaves.

  If all values are 0, the advantage of a token is lambda^(distance to the end).
  """
  rollout = worked((1,) * length, (0.0,) * length)
  m = methods.get("vapo")
  links = [stage for _, stage in m.advantage.links]
  signal = worked_example.apply(chain(*links[:-1]), rollout)  # not whitened
  close(signal[0, 0, -2:], [lam, 1.0], atol=2e-5)


@functools.cache
def gradient(name, hyper, at_step=0):
  m = methods.get(name, **dict(hyper))
  rollout = tabular_policy.rollout().replace(step=jnp.asarray(at_step))
  params = tabular_policy.params()

  @jax.jit
  def go(params):
    scored = scoring.passes(
      tabular_policy.policy, {"old": params}, method_loss.required(m), rollout
    )
    batch, scales, _ = method_loss.prepare(m, scored, m.init())
    return method_loss.gradient(
      m, tabular_policy.policy, params, batch, scales, Plan()
    )[0]

  return np.asarray(go(params)["hidden"])


def test_vapo_without_its_pieces_is_ppo():
  """lambda = 1, no NLL, the same clip, no pretraining."""
  of_ppo = (("beta", 0.0), ("lam", 1.0))
  of_vapo = (("alpha", 1e9), ("mu", 0.0), ("high", 0.2), ("pretraining", 0))
  close(gradient("vapo", of_vapo), gradient("ppo", of_ppo), atol=1e-7)


def test_only_the_critic_learns_during_pretraining():
  """The logits have no gradient before step 3; the values always do."""
  hyper = (("pretraining", 3),)
  for at, moves in ((2, False), (3, True)):
    g = gradient("vapo", hyper, at)
    assert g[..., : tabular_policy.V].any() == moves
    assert g[..., tabular_policy.V].any()


def test_only_right_samples_are_imitated():
  """mu adds a pull towards every token of the right samples, equally strong."""
  ours = gradient("vapo", (("alpha", 0.5), ("mu", 0.7), ("pretraining", 0)))
  none = gradient("vapo", (("alpha", 0.5), ("mu", 0.0), ("pretraining", 0)))
  pull = (ours - none)[..., : tabular_policy.V]
  rollout = tabular_policy.rollout()
  logits = tabular_policy.params()["hidden"][..., : tabular_policy.V]
  right = rollout.valid("token") & (rollout.correct == 1)[..., None]
  away = jax.nn.softmax(logits) - jax.nn.one_hot(
    rollout.completions, tabular_policy.V
  )
  want = 0.7 * jnp.where(right[..., None], away, 0.0) / right.sum()
  close(pull, want)
