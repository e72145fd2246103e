"""Tests of `rl.method_loss`: needs, signals, masks, losses, metrics by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import method_loss, scoring, transforms, types
from rl.losses import aggregates, surrogates, terms
from rl.method import FurtherUpdates, Method
from rl.transforms import LevelError, chain, scores, transform
from rl.update_plan import Plan

close = np.testing.assert_allclose
POLICY_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
GRADIENT = terms.policy_gradient(surrogates.reinforce())

# Three prompts of two samples. The second sample of the second prompt does not
# exist, and no sample of the third prompt is finished.
LENGTHS = np.array([[3, 1], [2, 3], [3, 2]])
EXISTS = np.array([[True, True], [True, False], [True, True]])
FINISHED = np.array([[True, True], [True, True], [False, False]])
SCORED = (np.arange(3) < LENGTHS[..., None]) & EXISTS[..., None]
IN_LOSS = SCORED & FINISHED[..., None]
# log pi of the tokens: 0 to 2 are prompts, and 3 to 5 the prompts of the view
# "answer", which has one sample of two tokens.
TABLE = -np.arange(1.0, 37).reshape(6, 2, 3, 1) / 10
LOG_PROBS = TABLE[:3, ..., 0]
BEHAVIOR = LOG_PROBS - np.array([[[0.5, -1.0, 2.0]]])
SCORES = np.array([[2.0, -1.0], [3.0, 9.0], [4.0, 5.0]], np.float32)
ANSWER = types.Tokens(
  prompts=jnp.array([[3], [4], [5]]),
  prompt_mask=jnp.ones((3, 1), bool),
  completions=jnp.zeros((3, 2, 2), jnp.int32),
  lengths=jnp.array([[2, 2], [1, 1], [2, 2]]),
  mask=jnp.array([[[1, 1]] * 2, [[1, 0]] * 2, [[0, 1]] * 2], bool),
)
ROLLOUT = worked_example.rollout(
  SCORES,
  LENGTHS,
  behavior_log_probs=BEHAVIOR,
  sample_mask=jnp.asarray(EXISTS),
  finished=jnp.asarray(FINISHED),
  views={"answer": ANSWER},
)
PARAMS = {"table": jnp.float32(TABLE)}


def _score(params, tokens):
  """The vocabulary has two tokens, of which completions repeat the first."""
  s, t = tokens.completions.shape[1:]
  hidden = params["table"][tokens.prompts[:, 0]][:, :s, :t]

  def logits(h):
    return jnp.concatenate([h, jnp.log1p(-jnp.exp(h))], -1)

  heads = {"logits": logits, "value": lambda h: 2.0 * h[..., 0]}
  return types.Scored(hidden, heads)


POLICY = types.Policy(_score, None, None)


def _prepare(method, rollout=ROLLOUT, state=None):
  return method_loss.prepare(
    method, rollout, method.init() if state is None else state
  )


def _loss(method, rollout=ROLLOUT, **settings):
  @jax.jit
  def total_and_metrics(rollout):
    batch, term_weights, _ = _prepare(method, rollout)
    weights = method_loss.aggregation_weights(method, batch)
    total, tally = method_loss.loss(
      method, POLICY, PARAMS, batch, weights, term_weights, **settings
    )
    return total, jax.tree.map(lambda x: x[None], tally).merge()

  total, metrics = total_and_metrics(rollout)
  return float(total), {name: float(x) for name, x in metrics.items()}


def _required(*arguments, **keywords):
  return set(map(str, method_loss.required(*arguments, **keywords)))


# Needs.


@transform(takes="none", gives="sample", needs=lambda need: {need})
def reader(_, rollout, *, need):
  """Reads a need."""
  return rollout.extras[need].sum(-1)


@terms.term(takes="none", gives="token", needs=lambda needs: set(needs))
def needy(_, policy, rollout, *, needs):
  """Reads needs."""
  return sum(rollout.extras[need] for need in needs) + 0 * policy["log_probs"]


def _probe(name, *reads):
  return scoring.Probe(name, lambda x, ids, *read: x[..., 0], reads=reads)


def test_needs_of_the_old_policy_are_left_out_for_a_single_update():
  """Those of transforms are always needed, and so are other parameters."""
  old_entropy = scoring.Need("old", scoring.entropy)
  old_values = scoring.Need("old", scoring.values)
  loss = needy((old_entropy,)) + terms.kl() + GRADIENT
  method = Method(loss, chain(reader(old_values)))
  assert _required(method) == {"ref/log_probs", "old/values"}
  assert _required(method, 2) == {
    *("ref/log_probs", "old/values", "old/entropy", "old/log_probs"),
  }
  # The log-probs of the old policy are logged.
  assert _required(Method(terms.nll()), 2) == {"old/log_probs"}
  assert _required(Method(terms.nll())) == set()


def test_what_needs_read_is_needed_too():
  inner = scoring.Need("ema", _probe("inner"))
  middle = scoring.Need("ref", _probe("middle", inner))
  of_signal = Method(
    GRADIENT, chain(reader(scoring.Need("old", _probe("outer", middle))))
  )
  assert _required(of_signal) == {"old/outer", "ref/middle", "ema/inner"}
  of_loss = Method(needy((scoring.Need("policy", _probe("outer", middle)),)))
  assert _required(of_loss) == {"ref/middle", "ema/inner"}


def test_further_updates_need_the_old_policy_and_what_their_loss_needs():
  inner = scoring.Need("ema", _probe("inner"))
  loss = needy((scoring.Need("policy", _probe("outer", inner)),)) + terms.kl()
  further = FurtherUpdates(loss, "policy/kl", 0.1, 2)
  method = Method(
    terms.policy_gradient(surrogates.ppo_clip()),
    chain(scores()),
    further_updates=(further,),
  )
  needs = {"old/log_probs", "ref/log_probs", "ema/inner"}
  assert _required(method) == needs


# Signals, masks and weights.


@transform(takes="none", gives="sample", init=lambda start: jnp.float32(start))
def counted_scores(_, rollout, state, *, start):
  """Scores times a state that doubles."""
  return rollout.scores * state, 2 * state


@transform(takes="none", gives="scalar", init=lambda: jnp.float32(0.25))
def growing(_, rollout, state):
  """A term weight that doubles."""
  del rollout
  return state, 2 * state


def test_every_part_is_applied_once_with_its_own_state():
  loss = (
    GRADIENT
    + growing() * GRADIENT.of(signal=counted_scores(5.0))
    + 0.5 * terms.nll()
  )
  method = Method(
    loss,
    counted_scores(3.0),
    prepared=(("double", counted_scores(2.0)),),
  )
  batch, weights, state = _prepare(method)
  assert {k: float(v) for k, v in state.items()} == {
    "advantage": 6,
    "prepared/double": 4,
    "term1/signal": 10,
    "term1/weight": 0.5,
  }
  assert [float(weight) for weight in weights] == [1, 0.25, 0.5]
  assert {weight.dtype for weight in weights} == {jnp.dtype("float32")}
  tokens = SCORED * np.where(EXISTS, SCORES, 0)[..., None]
  close(batch.signals[0], 3 * tokens)
  close(batch.signals[1], 5 * tokens)
  assert batch.signals[2].tolist() == [0, 0, 0]
  close(batch.rollout.extras["prepared/advantage"], 3 * SCORES)
  close(batch.rollout.extras["prepared/double"], 2 * SCORES)
  assert method.init()["advantage"] == 3  # the first state is unchanged
  _, weights, _ = _prepare(method, state=state)
  assert float(weights[1]) == 0.5


def test_a_sample_filter_removes_samples_from_statistics_and_loss():
  method = Method(
    GRADIENT,
    chain(scores(), transforms.center()),
    sample_filter=transforms.finished(),
  )
  batch, _, _ = _prepare(method)
  np.testing.assert_array_equal(batch.rollout.sample_mask, EXISTS & FINISHED)
  np.testing.assert_array_equal(batch.rollout.mask, IN_LOSS)
  np.testing.assert_array_equal(batch.masks[0], IN_LOSS)
  centered = np.array([[1.5, -1.5], [0, 0], [0, 0]])[..., None]
  close(batch.signals[0], IN_LOSS * centered)


def _first_tokens(rollout):
  return rollout.mask & (jnp.arange(3) < 2)


@transform(takes="none", gives="token")
def first_tokens(_, rollout):
  """The first two tokens of each sample."""
  return _first_tokens(rollout)


def test_a_loss_filter_removes_samples_or_tokens_from_the_loss_alone():
  method = Method(
    GRADIENT + GRADIENT.of(loss_filter=first_tokens()) + terms.nll("answer"),
    chain(scores(), transforms.center()),
    loss_filter=transforms.finished(),
  )
  batch, _, _ = _prepare(method)
  np.testing.assert_array_equal(batch.rollout.mask, SCORED)
  np.testing.assert_array_equal(batch.masks[0], IN_LOSS)
  np.testing.assert_array_equal(batch.masks[1], SCORED & (np.arange(3) < 2))
  answer = np.asarray(ANSWER.mask) & (EXISTS & FINISHED)[..., None]
  np.testing.assert_array_equal(batch.masks[2], answer)
  # The signal includes the samples that the filter removes from the loss.
  centered = np.array([[1.5, -1.5], [0, 0], [-0.5, 0.5]])[..., None]
  close(batch.signals[0], SCORED * centered)
  shared = Method(GRADIENT, scores(), loss_filter=first_tokens())
  np.testing.assert_array_equal(
    _prepare(shared)[0].masks[0], SCORED & (np.arange(3) < 2)
  )


@terms.term(takes="sample", gives="sample", needs={POLICY_LOG_PROBS})
def totals(signal, policy, rollout):
  """Sums over all tokens; logs a metric per level."""
  log_probs = policy[scoring.log_probs]
  total = log_probs.sum(-1)
  return signal * total, {
    "by_token": log_probs,
    "by_token_max": jnp.where(rollout.mask, log_probs, 99.0),
    "by_sample": total,
    "by_prompt": total.sum(-1),
    "by_prompt_max": -total.sum(-1),
  }


@terms.term(takes="prompt", gives="prompt", needs={POLICY_LOG_PROBS})
def by_prompt(signal, policy, rollout):
  """Values of prompts."""
  del rollout
  return signal * policy[scoring.log_probs].sum((-2, -1))


@transform(takes="none", gives="prompt")
def prompt_numbers(_, rollout):
  """1, 2 and 3."""
  return 1.0 + rollout.prompt_ids


def test_signals_are_0_where_no_sample_exists():
  loss = totals() + by_prompt().of(signal=prompt_numbers())
  batch, _, _ = _prepare(Method(loss, scores()))
  close(batch.signals[0], np.where(EXISTS, SCORES, 0))
  assert batch.signals[1].tolist() == [1, 2, 3]
  tokens = chain(scores(), transforms.place_last())
  batch, _, _ = _prepare(Method(GRADIENT, tokens))
  last = (np.arange(3) == LENGTHS[..., None] - 1) & SCORED
  close(batch.signals[0], np.where(last, SCORES[..., None], 0))


def test_the_first_signal_is_that_of_the_first_term_with_one_to_log():
  loss = terms.nll() + by_prompt().of(signal=prompt_numbers()) + totals()
  method = Method(loss, scores(), loss_filter=transforms.finished())
  signal, mask = method_loss.first_signal(method, _prepare(method)[0])
  close(signal, np.where(EXISTS, SCORES, 0))
  np.testing.assert_array_equal(mask, EXISTS & FINISHED)
  method = Method(
    GRADIENT + totals(), scores(), loss_filter=transforms.finished()
  )
  batch = _prepare(method)[0]
  signal, mask = method_loss.first_signal(method, batch)
  assert signal is batch.signals[0]
  assert mask is batch.masks[0]
  method = Method(terms.nll())
  assert method_loss.first_signal(method, _prepare(method)[0]) is None


def test_prepared_arrays_are_not_differentiated():
  method = Method(GRADIENT, scores())

  def total(scores_of_samples):
    batch, _, _ = _prepare(method, ROLLOUT.replace(scores=scores_of_samples))
    return batch.signals[0].sum()

  assert not jax.grad(total)(ROLLOUT.scores).any()


# Losses.


def test_a_loss_is_the_weighted_sum_of_its_terms():
  loss = 3.0 * totals() + 0.5 * terms.nll("answer") + 2.0 * terms.nll()
  method = Method(loss, scores(), loss_filter=transforms.finished())
  total, metrics = _loss(method)
  sums = np.where(SCORED, LOG_PROBS, 0).sum(-1)
  # Three samples, seven tokens of the answer and six tokens are in the loss.
  of_samples = 3 * (SCORES * sums)[EXISTS & FINISHED].mean()
  answer_mask = np.asarray(ANSWER.mask) & (EXISTS & FINISHED)[..., None]
  of_answers = -0.5 * TABLE[3:, :, :2, 0][answer_mask].mean()
  of_tokens = -2.0 * LOG_PROBS[IN_LOSS].mean()
  close(metrics["loss/totals"], of_samples, rtol=1e-5)
  close(metrics["loss/nll"], of_answers + of_tokens, rtol=1e-5)
  close(metrics["loss/total"], total, rtol=1e-6)
  close(total, of_samples + of_answers + of_tokens, rtol=1e-5)


def test_metrics_are_over_what_is_in_the_loss():
  """Tokens, samples with a token in the loss, and prompts with one."""
  method = Method(totals(), scores(), loss_filter=transforms.finished())
  _, metrics = _loss(method)
  sums = np.where(SCORED, LOG_PROBS, 0).sum(-1)
  close(metrics["by_token"], LOG_PROBS[IN_LOSS].mean(), rtol=1e-5)
  close(metrics["by_token_max"], LOG_PROBS[IN_LOSS].max(), rtol=1e-5)
  close(metrics["by_sample"], sums[EXISTS & FINISHED].mean(), rtol=1e-5)
  close(metrics["by_prompt"], sums[:2].sum(-1).mean(), rtol=1e-5)
  close(metrics["by_prompt_max"], -sums[:2].sum(-1).min(), rtol=1e-5)
  # Metrics of the policy are over all scored tokens.
  p = np.exp(LOG_PROBS)
  entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
  close(metrics["policy/entropy"], entropy[SCORED].mean(), rtol=1e-5)
  difference = np.abs(LOG_PROBS - BEHAVIOR)
  close(
    metrics["policy/sampler_log_prob_diff_mean"],
    difference[SCORED].mean(),
    rtol=1e-5,
  )
  close(metrics["policy/sampler_log_prob_diff_max"], 2.0, rtol=1e-5)
  # The trainer's log-probs are those at the start of the step.
  old = types.Named({"old/log_probs": jnp.float32(BEHAVIOR - 0.25)})
  _, metrics = _loss(method, ROLLOUT.replace(extras=old))
  close(metrics["policy/sampler_log_prob_diff_mean"], 0.25, rtol=1e-5)


DISTRIBUTION = scoring.Need(
  "policy",
  scoring.Probe("distribution", lambda logits, ids: jax.nn.softmax(logits)),
)


@terms.term(takes="none", gives="sample", needs={DISTRIBUTION})
def mass(_, policy, rollout, *, token):
  """Sums the probability of a token over all positions."""
  del rollout
  return policy["distribution"][..., token].sum(-1)


def test_a_value_with_further_axes_is_0_outside_of_the_scored_tokens():
  p = np.exp(LOG_PROBS)
  for token, probs in ((0, p), (1, 1 - p)):
    total, _ = _loss(Method(mass(token)))
    sums = np.where(SCORED, probs, 0).sum(-1)
    close(total, sums[EXISTS].mean(), rtol=1e-5)


@terms.term(takes="none", gives="token", needs={POLICY_LOG_PROBS})
def infinite_outside(_, policy, rollout):
  """Infinite at tokens that are not in the loss."""
  return jnp.where(rollout.mask, policy[scoring.log_probs], jnp.inf)


def test_a_value_outside_of_the_loss_is_left_out():
  method = Method(infinite_outside(), loss_filter=transforms.finished())
  total, _ = _loss(method)
  close(total, LOG_PROBS[IN_LOSS].mean(), rtol=1e-5)


@terms.term(
  takes="none",
  gives="token",
  needs={
    scoring.Need("policy", scoring.values),
    scoring.Need("old", scoring.values),
    scoring.Need("old", scoring.log_probs, "answer"),
  },
)
def against_old(_, policy, rollout):
  """Has the slope of the new values; logs what it reads of the old policy."""
  new, old = policy[scoring.values], rollout.extras["old/values"]
  return new * old, {
    "new": new,
    "old": old,
    "answer": jnp.broadcast_to(
      rollout.extras["old@answer/log_probs"].sum((-2, -1)), (3,)
    ),
  }


def test_the_old_policy_of_a_single_update_is_the_current_one():
  """Its values have no gradient."""
  method = Method(against_old())
  batch, term_weights, _ = _prepare(method)
  grads, tally = method_loss.gradient(
    method, POLICY, PARAMS, batch, term_weights, Plan()
  )
  # Values are 2 log pi: the slope of new * old is 2 * old in the table.
  want = np.where(SCORED, 2 * 2 * LOG_PROBS, 0) / SCORED.sum()
  close(grads["table"][:3, ..., 0], want, rtol=1e-5)
  merged = tally.merge()
  close(merged["old"], 2 * LOG_PROBS[SCORED].mean(), rtol=1e-5)
  close(merged["new"], merged["old"])
  answers = np.asarray(ANSWER.mask) & EXISTS[..., None]
  sums = np.where(answers, TABLE[3:, :, :2, 0], 0).sum((-2, -1))
  close(merged["answer"], sums.mean(), rtol=1e-5)


def test_logits_are_divided_by_the_temperature():
  method = Method(terms.nll())
  logits = np.stack([LOG_PROBS, np.log1p(-np.exp(LOG_PROBS))], -1) / 2
  log_p = logits[..., 0] - np.log(np.exp(logits).sum(-1))
  for chunk in (None, 2):
    total, _ = _loss(method, temperature=2.0, chunk=chunk)
    close(total, -log_p[SCORED].mean(), rtol=1e-5)
  total, _ = _loss(method)
  close(total, -LOG_PROBS[SCORED].mean(), rtol=1e-5)


@pytest.mark.parametrize("microbatches", [1, 3])
def test_the_gradient_of_a_minibatch_is_that_of_its_microbatches(microbatches):
  """It is at the temperature of the plan, in the types of the parameters."""
  loss = terms.nll(aggregate=aggregates.prompt_mean_token_sum())
  method = Method(loss, loss_filter=transforms.finished())
  batch, term_weights, _ = _prepare(method)
  plan = Plan(microbatches=microbatches, temperature=2.0, chunk=2)
  params = {"table": PARAMS["table"].astype(jnp.bfloat16)}
  grads, tally = method_loss.gradient(
    method, POLICY, params, batch, term_weights, plan
  )
  assert grads["table"].dtype == jnp.bfloat16
  assert tally.sums["loss/total"].shape == (microbatches,)
  # d/dx of log(1 + exp((log(1 - e^x) - x) / 2)), over two prompts.
  p = np.exp(LOG_PROBS)
  other = 1 / (1 + np.exp(-(np.log1p(-p) - LOG_PROBS) / 2))
  slope = other * (-p / (1 - p) - 1) / 2 / 2
  close(
    np.float32(grads["table"][:3, ..., 0]),
    np.where(IN_LOSS, slope, 0),
    rtol=0.03,
  )


def test_the_shape_of_the_values_of_a_term_is_checked():
  @terms.term(takes="none", gives="sample", needs={POLICY_LOG_PROBS})
  def wrong(_, policy, rollout):
    del rollout
    return policy[scoring.log_probs]

  with pytest.raises(LevelError, match=r"wrong\(\) declares one value per sam"):
    _loss(Method(wrong()))


# Checks.


def test_a_check_knows_needs_of_the_host_and_names_missing_parameters():
  per_sample = scoring.host("s", lambda rollout: None, level="sample")
  per_token = scoring.host("t", lambda rollout: None)
  signal = chain(transforms.probe(per_sample, "sample"), transforms.center())
  weighted = transforms.probe(per_token)
  method = Method(
    GRADIENT + GRADIENT.of(signal=weighted) + terms.kl("k2", "ema"), signal
  )
  method = dataclasses.replace(
    method,
    parameter_sets=(("ema", None), ("ref", None)),
    name="mine",
  )
  method_loss.check(
    method, POLICY, {"policy": PARAMS, "ema": PARAMS, "ref": 0}, ROLLOUT
  )
  with pytest.raises(ValueError, match=r"mine needs the .* sets \['ref'\]"):
    method_loss.check(
      method, POLICY, {"policy": PARAMS, "ema": PARAMS}, ROLLOUT
    )


def test_a_check_refuses_a_term_that_cannot_be_differentiated():
  @terms.term(takes="none", gives="token", needs={POLICY_LOG_PROBS})
  def halved(_, policy, rollout):
    del rollout
    return jax.lax.while_loop(
      lambda x: x.max() > 1, lambda x: x / 2, policy[scoring.log_probs]
    )

  with pytest.raises(ValueError, match="Reverse-mode differentiation"):
    method_loss.check(Method(halved()), POLICY, {"policy": PARAMS}, ROLLOUT)
