"""Loss and gradient of every method that verl or TRL has too, against theirs.

Theirs are written from the definitions in `peers.py`; all see one stored batch
on which every clip bites on both sides. Slopes are those in each current
log-prob (and value). "=" is equality to 1e-5, "x c" equality up to that factor.

  ours                   peer  its name               how
  grpo                   verl  grpo, vanilla          =, without its dual clip
                         TRL   loss_type grpo         =, eps 1e-4, beta 0.04
  dr_grpo                verl  norm_adv_by_std False  =, by its version of
                               seq-mean-token-sum-norm  February 2026 or later
                         TRL   dr_grpo, scale none    =
  rloo                   verl  rloo, reinforce        =
                         TRL   RLOOTrainer            slopes =, on-policy:
                                                      ratios of whole samples
  reinforce_pp           verl  reinforce_plus_plus    x sqrt(n / (n - 1)), ddof
  reinforce_pp_baseline  verl  ..._baseline           x sqrt(n / (n - 1)), ddof
  remax, opo, gpg        verl  remax, opo, gpg        =; gpg counts scores
  gdpo                   TRL   normalize_then_sum     x sqrt(n / (n - 1)), ddof;
                                                      = with its eps, ddof
  dapo                   verl  grpo, clip-higher      =, filtered groups cut;
                               dynamic sampling         dual clip off
                         TRL   dapo, mask_truncated   =, eps 1e-4
  lite_ppo               TRL   scale_rewards batch    =, ddof 1, eps 1e-4
  ppo                    verl  gae, value loss        =, value_clip 0.5
                         TRL   PPOTrainer             policy =, lam 1; its
                                                      reward is a state late
  gspo                   verl  gspo                   =
                         TRL   level sequence         =, eps 1e-4
  cispo                  verl  cispo                  =, with low and high
                         TRL   cispo                  =, its epsilon_high is the
                                                      cap itself: ours + 1
  sapo                   verl  sapo                   =
                         TRL   sapo                   =, eps 1e-4
  gmpo                   verl  geo_mean               =, mean over rows in use;
                                                      = with rollout_is weights
  clip_cov, kl_cov       verl  clip_cov, kl_cov       = where its covariance, of
                               the current policy, is that of the old one, and
                               where nothing is drawn by chance; kl_cov: cov > 0
  top_minus_second       verl  grpo_passk             x samples: mean over
                                                      prompts here
  dpo, semi_online_dpo   TRL   DPO, sigmoid           =, with label_smoothing
  kl k1, k1+, ..., k3+   verl  kl_penalty             =; theirs clamps k3 at 10
  ppo_clip cap           verl  clip_ratio_c           =, cap = 3
                         TRL   delta                  =, cap = 4
  aggregates             both  agg_loss, loss_type    =, but for the above

By design: a group of one earns nothing (verl: its score), equal scores exactly
nothing (both: what rounding leaves), rows without a token are not counted (TRL
and geo_mean: they are), and denominators are those of the whole minibatch
(TRL's bnpo: of a microbatch). Not here: `pf_ppo`, whose draws verl takes from
the batch and not from the group. What their float32 makes of their definitions
is in `test_released_faults.py`. Methods whose numbers come from the peers' own
functions are in `test_peer_values.py`.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import peers
from helpers.peers import BATCH, NOW, OLD, SHIFTED, P, Point, S, T

from rl import (
  advantages,
  credit,
  method,
  method_loss,
  methods,
  scoring,
  transforms,
  types,
)
from rl.losses import aggregates, importance, ratios, surrogates, terms
from rl.methods.critic import values
from rl.transforms import chain
from rl.update_plan import Plan

TOKENS = BATCH.mask.sum()
DDOF = {
  "tokens": np.sqrt(TOKENS / (TOKENS - 1)),
  "samples": np.sqrt(P * S / (P * S - 1)),
}
COMPONENTS = ("accuracy", "format")


def _score(params, tokens):
  """The stored log-prob for token 0, the rest of the mass for token 1."""
  ids = tokens.prompts[:, 0]
  hidden = jnp.stack([params.log_probs[ids], params.values[ids]], -1)

  def logits(h):
    first = h[..., 0]
    return jnp.stack([first, jnp.log1p(-jnp.exp(first))], -1)

  return types.Scored(hidden, {"logits": logits, "value": lambda h: h[..., 1]})


def _undefined(*args):
  raise AssertionError("a stored batch has nothing to decode", args)


POLICY = types.Policy(_score, _undefined, _undefined)


def rollout(**changes):
  """The stored batch, as methods see it."""
  actual = types.Rollout(
    tokens=types.Tokens(
      prompts=jnp.arange(P)[:, None],
      prompt_mask=jnp.ones((P, 1), bool),
      completions=jnp.zeros((P, S, T), int),
      lengths=jnp.asarray(BATCH.lengths),
      mask=jnp.asarray(BATCH.mask > 0),
    ),
    sample_mask=jnp.ones((P, S), bool),
    behavior_log_probs=jnp.asarray(BATCH.old_log_probs, jnp.float32),
    finished=jnp.asarray(BATCH.finished == 1),
    scores=jnp.asarray(BATCH.scores, jnp.float32),
    correct=jnp.asarray(BATCH.correct, jnp.int8),
    prompt_ids=jnp.arange(P),
    keys=jax.random.split(jax.random.key(0), P),
    step=jnp.zeros((), jnp.int32),
    components={
      "accuracy": jnp.asarray(BATCH.correct, jnp.float32),
      "format": jnp.asarray(BATCH.format, jnp.float32),
    },
    extras=types.Named(
      {"sampler/greedy_scores": jnp.asarray(BATCH.greedy_scores, jnp.float32)}
    ),
  )
  return actual.replace(**changes)


def single(point):
  return Point(*(jnp.asarray(x, jnp.float32) for x in point))


def ours(m, at=NOW, batch_rollout=None, microbatches=1):
  """Loss and slopes of the whole method, as the train step computes them."""
  batch_rollout = rollout() if batch_rollout is None else batch_rollout
  ref = OLD._replace(log_probs=BATCH.ref_log_probs)
  needs = method_loss.required(m, updates=2)
  cut = Plan(microbatches=microbatches)

  @jax.jit
  def loss_and_gradient(params, sources, batch_rollout):
    scored = scoring.passes(POLICY, sources, needs, batch_rollout)
    batch, scales, _ = method_loss.prepare(m, scored, m.init())
    gradient, tally = method_loss.gradient(
      m, POLICY, params, batch, scales, cut
    )
    return tally.merge()["loss/total"], gradient

  sources = {"old": single(OLD), "ref": single(ref)}
  total, actual = loss_and_gradient(single(at), sources, batch_rollout)
  return float(total), Point(*map(np.asarray, actual))


def close(got, want):
  """Within 1e-5 of the largest magnitude."""
  scale = np.abs(want).max()
  assert scale > 1e-6
  np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * scale)


def composed(loss, advantage=None, **kwargs):
  """A method of this project's parts, by default with GRPO's advantage."""
  default = chain(transforms.scores(), z_score(1e-6))
  return method.Method(loss, advantage or default, **kwargs)


def z_score(eps):
  return transforms.group_normalize(1, eps)


def clipped(aggregate, **kwargs):
  """PPO-clip of GRPO's advantages under another aggregation."""
  surrogate = surrogates.ppo_clip(**kwargs)
  return composed(terms.policy_gradient(surrogate, aggregate=aggregate))


def with_trl_eps(m):
  """The method on TRL's z-score, which adds 1e-4 to the deviation."""
  advantage = chain(transforms.scores(), z_score(1e-4))
  return dataclasses.replace(m, advantage=advantage)


def with_loss_filter(name, loss_filter=None, **hyper):
  """The method with another filter, by default none."""
  return dataclasses.replace(
    methods.get(name, **hyper), loss_filter=loss_filter
  )


@dataclasses.dataclass(frozen=True)
class Case:
  """A method and its peer.

  Attributes:
    ours, theirs: what is compared.
    factor: ours over theirs.
    at: where the policy stands.
    loss: whether the values of the losses are the same, too.
    says: (who, words): the docstring that explains what differs.
  """

  ours: method.Method
  theirs: Callable[[Point, Point], float]
  factor: float = 1.0
  at: Point = NOW
  loss: bool = True
  says: tuple = ()


SCORES = BATCH.scores
GROUP = peers.verl_group(SCORES)
TRL_GROUP = peers.trl_group(SCORES)
CENTRED = peers.verl_group(SCORES, eps=None)
PUNISHED = peers.overlong(SCORES, limit=6, cache=3)
MIXED = np.array([1, 1, 0, 1])[:, None, None] * BATCH.mask
FINISHED = BATCH.finished[..., None] * BATCH.mask
WHITE = peers.whitened(peers.on_tokens(CENTRED), BATCH.mask)
REWARDS = peers.token_rewards(SCORES, 0.05)
GAE, RETURNS = peers.verl_gae(REWARDS, OLD.values, 0.9, 0.8)
TRL_GAE = peers.trl_gae(SCORES, OLD.values, 0.05, lam=1.0)
PLAIN, _ = peers.verl_gae(
  peers.token_rewards(SCORES, 0.0), OLD.values, 1.0, 1.0
)
PARTS = np.stack([BATCH.correct, BATCH.format]).astype(float)
# The first best and the first worst of each group that has both.
CHOSEN, REJECTED = [(0, 0), (1, 1), (3, 3)], [(0, 1), (1, 2), (3, 0)]


def verl(a, mean="token-mean", low=0.2, high=0.2, **kwargs):
  return peers.verl_clip(a, low, high, mean, **kwargs)


CASES = {
  "grpo, verl": Case(
    methods.get("grpo", beta=0.001),
    peers.total(
      (1.0, verl(GROUP, "seq-mean-token-mean")),
      (0.001, peers.verl_kl("k3", "seq-mean-token-mean")),
    ),
  ),
  "grpo, TRL": Case(
    methods.get("grpo", eps=1e-4),
    peers.total(
      (1.0, peers.trl_clip(TRL_GROUP, "grpo")), (0.04, peers.trl_kl("grpo"))
    ),
  ),
  "dr_grpo, verl": Case(
    methods.get("dr_grpo"),
    verl(CENTRED, "seq-mean-token-sum-norm"),
    says=("dr_grpo", "sum over tokens / (samples x horizon)"),
  ),
  "dr_grpo with a row cut, verl": Case(
    with_loss_filter("dr_grpo", transforms.finished()),
    verl(CENTRED, "seq-mean-token-sum-norm", mask=FINISHED),
  ),
  "dr_grpo, TRL": Case(
    methods.get("dr_grpo", horizon=T), peers.trl_clip(CENTRED, "dr_grpo")
  ),
  "rloo, verl": Case(
    methods.get("rloo"),
    peers.verl_reinforce(
      peers.verl_leave_one_out(SCORES), "seq-mean-token-sum"
    ),
  ),
  "rloo, TRL": Case(
    methods.get("rloo"),
    peers.trl_rloo(peers.verl_leave_one_out(SCORES), 0.2),
    at=OLD,
    loss=False,
    says=("rloo", "REINFORCE on whole samples"),
  ),
  "rloo with ratios, TRL": Case(
    composed(
      terms.policy_gradient(
        surrogates.ppo_clip(),
        ratio=ratios.sequence,
        aggregate=aggregates.seq_mean_token_sum(),
      ),
      chain(transforms.scores(), transforms.leave_one_out()),
    ),
    peers.trl_rloo(peers.verl_leave_one_out(SCORES), 0.2),
    loss=False,
    says=(ratios, "sequence is returned at each token of the sequence"),
  ),
  "reinforce_pp, verl": Case(
    methods.get("reinforce_pp", beta=0.05, gamma=0.9),
    verl(peers.whitened(peers.verl_returns(REWARDS, 0.9), BATCH.mask)),
    factor=DDOF["tokens"],
    says=("reinforce_pp", "whitened (ddof 0)"),
  ),
  "reinforce_pp_baseline, verl": Case(
    methods.get("reinforce_pp_baseline", beta=0.001),
    peers.total(
      (1.0, verl(WHITE)), (0.001 / DDOF["tokens"], peers.verl_kl("k2"))
    ),
    factor=DDOF["tokens"],
    says=("reinforce_pp_baseline", "standard deviation (ddof 0)"),
  ),
  "remax, verl": Case(
    methods.get("remax"),
    peers.verl_reinforce(
      SCORES - BATCH.greedy_scores[:, None], "seq-mean-token-sum"
    ),
  ),
  "opo, verl": Case(
    methods.get("opo"),
    peers.verl_reinforce(
      peers.verl_length_weighted(SCORES, BATCH.lengths), "seq-mean-token-sum"
    ),
  ),
  "gpg, verl": Case(
    methods.get("gpg", count="scores"),
    peers.verl_reinforce(peers.verl_gpg(SCORES), "token-mean"),
  ),
  "gdpo, TRL": Case(
    methods.get("gdpo", names=COMPONENTS),
    peers.trl_clip(peers.trl_components(PARTS, eps=(1e-6, 0.0)), "dapo"),
    factor=DDOF["samples"],
  ),
  "dapo without filters, verl": Case(
    with_loss_filter("dapo", max_length=6, cache=3),
    verl(peers.verl_group(PUNISHED), high=0.28),
  ),
  "dapo with dynamic sampling, verl": Case(
    with_loss_filter(
      "dapo", transforms.mixed_verdicts(), max_length=6, cache=3
    ),
    verl(peers.verl_group(PUNISHED), high=0.28, mask=MIXED),
  ),
  "dapo, filters of verl and TRL": Case(
    methods.get("dapo", max_length=6, cache=3),
    verl(peers.verl_group(PUNISHED), high=0.28, mask=MIXED * FINISHED),
  ),
  "dapo without dynamic sampling, TRL": Case(
    with_trl_eps(with_loss_filter("dapo", transforms.finished())),
    peers.trl_clip(TRL_GROUP, "dapo", high=0.28, mask=FINISHED),
  ),
  "lite_ppo, TRL": Case(
    methods.get("lite_ppo", ddof=1, eps=1e-4),
    peers.trl_clip(peers.trl_group(SCORES, "batch"), "dapo"),
  ),
  "ppo, verl": Case(
    methods.get("ppo", gamma=0.9, lam=0.8, value_clip=0.5),
    peers.total(
      (1.0, verl(peers.whitened(GAE, BATCH.mask))),
      (1.0, peers.verl_value(RETURNS, 0.5)),
    ),
  ),
  "ppo of undiscounted returns, verl": Case(
    methods.get("ppo", beta=0.0),
    peers.total(
      (1.0, verl(peers.whitened(PLAIN, BATCH.mask))),
      (1.0, peers.verl_value(SCORES, 0.2)),
    ),
  ),
  "ppo without its critic's loss, TRL": Case(
    methods.get("ppo", value_coef=0.0),
    peers.trl_clip(peers.whitened(TRL_GAE, BATCH.mask), "dapo"),
  ),
  "gspo, verl": Case(methods.get("gspo"), peers.verl_gspo(GROUP, 3e-4, 4e-4)),
  "gspo, TRL": Case(
    with_trl_eps(methods.get("gspo")), peers.trl_sequence(TRL_GROUP, 3e-4, 4e-4)
  ),
  "cispo, verl": Case(
    methods.get("cispo", low=0.2, high=0.28), peers.verl_cispo(GROUP, 0.2, 0.28)
  ),
  "cispo, TRL": Case(
    with_trl_eps(methods.get("cispo", high=3.0)),
    peers.trl_cispo(TRL_GROUP, cap=4.0),
    says=("cispo", "TRL's `epsilon_high` is the weight itself"),
  ),
  "sapo, verl": Case(methods.get("sapo"), peers.verl_sapo(GROUP, 1.0, 1.05)),
  "sapo, TRL": Case(
    with_trl_eps(methods.get("sapo")), peers.trl_sapo(TRL_GROUP, 1.0, 1.05)
  ),
  "gmpo, verl": Case(
    methods.get("gmpo"), peers.verl_geo_mean(peers.verl_group(SCORES), 0.4)
  ),
  "clip_cov, verl": Case(
    methods.get("clip_cov", fraction=1.0, low=0.1, high=0.6),
    peers.verl_clip_cov(GROUP, 0.1, 0.6, 0.2),
    at=SHIFTED,
    says=("clip_cov", "the covariance is that of the policy before the step"),
  ),
  "kl_cov, verl": Case(
    methods.get("kl_cov", fraction=0.1, beta=0.1),
    peers.verl_kl_cov(GROUP, 0.1, 0.1),
    at=SHIFTED,
    says=("kl_cov", "the covariance is that of the policy before the step"),
  ),
  "top_minus_second, verl": Case(
    methods.get("top_minus_second"),
    verl(peers.verl_best_of_group(SCORES, by_std=False), "seq-mean-token-sum"),
    factor=S,
    says=("top_minus_second", "Summed over the group"),
  ),
  "top_minus_second scaled, verl": Case(
    methods.get("top_minus_second", scaled=True),
    verl(peers.verl_best_of_group(SCORES, by_std=True), "seq-mean-token-sum"),
    factor=S,
    says=("top_minus_second", "Summed over the group"),
  ),
  "semi_online_dpo, TRL": Case(
    methods.get("semi_online_dpo"), peers.trl_dpo(CHOSEN, REJECTED, 0.1)
  ),
  "dpo, TRL": Case(
    methods.get("dpo", label_smoothing=0.2),
    peers.trl_dpo(CHOSEN, REJECTED, 0.1, 0.2),
  ),
  "seq_mean_token_mean with a row cut, TRL": Case(
    with_loss_filter("grpo", transforms.finished(), eps=1e-4, beta=0.0),
    peers.trl_clip(TRL_GROUP, "grpo", mask=FINISHED),
    factor=P * S / (P * S - 1),
    says=(aggregates, "leaves out those without a token in the loss"),
  ),
  "gmpo with a row cut, verl": Case(
    with_loss_filter("gmpo", transforms.finished()),
    peers.verl_geo_mean(peers.verl_group(SCORES), 0.4, mask=FINISHED),
    factor=P * S / (P * S - 1),
    says=("gmpo", "the mean over samples with a token"),
  ),
  "dual clip, verl": Case(
    clipped(aggregates.token_mean(), cap=3.0), verl(GROUP, dual=3.0)
  ),
  "two-sided clip, TRL": Case(
    with_trl_eps(clipped(aggregates.token_mean(), cap=4.0)),
    peers.trl_clip(TRL_GROUP, "dapo", delta=4.0),
  ),
  **{
    f"kl {kind}, verl": Case(composed(terms.kl(kind)), peers.verl_kl(kind))
    for kind in terms.KL_ESTIMATORS
  },
  **{
    f"{mean}, verl": Case(clipped(aggregate), verl(GROUP, mean))
    for mean, aggregate in (
      ("token-mean", aggregates.token_mean()),
      ("seq-mean-token-mean", aggregates.seq_mean_token_mean()),
      ("seq-mean-token-sum", aggregates.seq_mean_token_sum()),
      ("seq-mean-token-sum-norm", aggregates.seq_mean_token_sum_norm()),
    )
  },
}


def words(who):
  """The docstring, on one line, of a method by name or of an object."""
  doc = (methods.factory(who) if isinstance(who, str) else who).__doc__
  return " ".join(doc.split())


@pytest.mark.parametrize("name", CASES)
def test_loss_and_slopes_are_those_of_the_peer(name):
  case = CASES[name]
  loss, actual = ours(case.ours, case.at)
  if case.loss:
    close(loss, case.factor * case.theirs(case.at, case.at))
  want = peers.slopes(case.theirs, case.at)
  for got, slope in zip(actual, want, strict=True):
    if np.abs(slope).max() > 1e-8:
      close(got, case.factor * slope)
    else:
      assert not got.any()


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n].says])
def test_what_differs_is_explained(name):
  who, says = CASES[name].says
  assert says in words(who)


def test_the_batch_reaches_every_branch():
  """It also stays away from every kink, where the slope is not defined."""
  mask, rho = BATCH.mask > 0, peers.ratio(NOW)
  for sign in (-1, 1):
    paid = mask & (sign * peers.on_tokens(GROUP) > 0)
    for crossed in (rho < 0.8, rho > 1.28, rho > 3.0, rho > 4.0):
      assert (paid & crossed).any()
  means = peers.mean_log_ratio(NOW)
  assert (means > np.log1p(4e-4)).any()
  assert (means < np.log1p(-3e-4)).any()
  assert (np.abs(means) < 2.5e-4).sum() == 2
  moved = NOW.values - OLD.values
  for clip in (0.2, 0.5):
    assert (moved[mask] > clip).any()
    assert (moved[mask] < -clip).any()
    assert np.abs(np.abs(moved[mask]) - clip).min() > 1e-3
  for kink in (0.8, 1.2, 1.28, 3.0, 4.0, np.exp(0.4), np.exp(-0.4)):
    assert np.abs(rho[mask] - kink).min() > 1e-3
  held_back = peers.largest_covariances(GROUP, SHIFTED, 0.1)
  assert held_back.sum() == int(0.1 * TOKENS)
  assert peers.covariances(GROUP, SHIFTED)[held_back].min() > 0
  inside = peers.covariances(GROUP, SHIFTED)[mask]
  assert 1 < ((inside > 0.1) & (inside < 0.6)).sum() < (inside > 0.1).sum()
  assert len(set(BATCH.lengths.ravel())) > 3
  assert BATCH.finished.sum() == P * S - 1
  assert np.ptp(SCORES, axis=-1)[2] == 0


@pytest.mark.parametrize(
  ("name", "peer"),
  [
    (
      "gmpo",
      functools.partial(peers.verl_geo_mean, peers.verl_group(SCORES), 0.4),
    ),
    ("gspo", functools.partial(peers.verl_gspo, GROUP, 3e-4, 4e-4)),
  ],
)
def test_truncated_weights_of_tokens_are_averaged_as_verl_does(name, peer):
  """GMPO takes the geometric mean over a sample, GSPO weighs each token."""
  gap = np.random.default_rng(0).normal(0.0, 0.8, (P, S, T))
  token_weights = np.minimum(np.exp(gap), 2.0)
  assert ((token_weights == 2.0) & (BATCH.mask > 0)).any()
  sampled = jnp.asarray(BATCH.old_log_probs - gap, jnp.float32)
  m = importance.add_importance_weights(methods.get(name), cap=2.0)
  loss, actual = ours(m, batch_rollout=rollout(behavior_log_probs=sampled))
  theirs = peer(weights=token_weights)
  close(loss, theirs(NOW, NOW))
  close(actual.log_probs, peers.slopes(theirs, NOW).log_probs)


# Where the peers' definitions say otherwise.

ALONE = SCORES[:, :1]
GROUPS_OF_ONE = {
  "grpo": peers.verl_group(ALONE),
  "dr_grpo": peers.verl_group(ALONE, eps=None),
  "rloo": peers.verl_leave_one_out(ALONE),
  "opo": peers.verl_length_weighted(ALONE, BATCH.lengths[:, :1]),
  "gpg": peers.verl_gpg(ALONE),
}


@pytest.mark.parametrize("name", GROUPS_OF_ONE)
def test_a_group_of_one_keeps_its_score_in_verl_and_earns_nothing_here(name):
  theirs = GROUPS_OF_ONE[name]
  np.testing.assert_allclose(theirs / theirs.max(), ALONE, atol=1e-5)
  hyper = {"beta": 0.0} if name == "grpo" else {}
  alone = jnp.arange(S) == jnp.zeros((P, 1), int)
  _, actual = ours(
    methods.get(name, **hyper), batch_rollout=rollout(sample_mask=alone)
  )
  assert not actual.log_probs.any()


def test_a_group_of_one_is_explained():
  assert "or with one sample, has A exactly 0" in words("grpo")
  assert "a group of one sample and an empty group have" in words(advantages)


@pytest.mark.parametrize(
  "name",
  [
    "clip_cov",
    "cispo",
    "dr_grpo",
    "gmpo",
    "gpg",
    "gspo",
    "lite_ppo",
    "opo",
    "rloo",
    "sapo",
    "top_minus_second",
  ],
)
def test_the_group_of_equal_scores_is_exactly_silent(name):
  """The advantage is 0 bit for bit, without rounding error."""
  _, actual = ours(methods.get(name))
  assert not actual.log_probs[2].any()
  assert actual.log_probs[[1, 3]].any((1, 2)).all()


def test_denominators_are_those_of_the_whole_minibatch():
  """TRL's bnpo averages the token means of the microbatches."""
  m = with_trl_eps(methods.get("lite_ppo"))
  full_batch = peers.trl_clip(TRL_GROUP, "dapo")
  for microbatches in (1, 2):
    loss, actual = ours(m, microbatches=microbatches)
    close(loss, full_batch(NOW, NOW))
    close(actual.log_probs, peers.slopes(full_batch, NOW).log_probs)
  odd = (np.arange(P) % 2)[:, None, None]
  halves = [
    peers.trl_clip(TRL_GROUP, "dapo", mask=BATCH.mask * half)
    for half in (odd, 1 - odd)
  ]
  bnpo = peers.total(*((0.5, half) for half in halves))
  assert abs(bnpo(NOW, NOW) / full_batch(NOW, NOW) - 1) > 0.01
  says = "The weights are computed from a whole minibatch, before it is cut"
  assert says in words(aggregates)


@pytest.mark.parametrize("lam", [1.0, 0.9])
def test_trl_pays_its_critic_one_state_behind_the_last_token(lam):
  """TRL's A_last is smaller by (1 - lam)(R - V); here that V is 0."""
  rewards = peers.token_rewards(SCORES, 0.05)
  theirs = peers.trl_gae(SCORES, OLD.values, 0.05, lam)
  here, _ = peers.verl_gae(rewards, OLD.values, 1.0, lam)
  mask = jnp.asarray(BATCH.mask > 0)
  actual = credit.gae(
    jnp.asarray(rewards), jnp.asarray(OLD.values), mask, 1, lam
  )
  close(np.asarray(actual), here * BATCH.mask)
  has_padding = BATCH.lengths < T
  last = (BATCH.lengths - 1)[..., None]
  behind = np.minimum(last + 1, T - 1)
  value = np.take_along_axis(OLD.values, behind, -1)[..., 0]
  gap = np.take_along_axis(theirs - here, last, -1)[..., 0]
  want = np.where(has_padding, -(1 - lam) * (SCORES - value), 0.0)
  np.testing.assert_allclose(gap, want, atol=1e-12)
  assert (
    "If there is none, or it is in another segment, V_{t+1} and A_{t+1} are 0"
    in words(credit.gae)
  )
  assert "and 0 after the last token" in words(values)


@pytest.mark.parametrize(
  ("aggregate", "mean"),
  [
    (aggregates.token_mean(), "token-mean"),
    (aggregates.seq_mean_token_sum(), "seq-mean-token-sum"),
    (aggregates.seq_mean_token_mean(), "seq-mean-token-mean"),
    (aggregates.seq_mean_token_sum_norm(), "seq-mean-token-sum-norm"),
  ],
  ids=str,
)
def test_the_entropy_bonus_is_verls(aggregate, mean):
  """It is subtracted, and aggregated like the loss."""
  bonus = -0.01 * terms.entropy(aggregate)
  weights = aggregate.fn(jnp.asarray(BATCH.mask > 0))

  def loss(entropies):
    named = types.Named({"entropy": entropies})
    return bonus.weight * jnp.sum(weights * bonus.fn(None, named, None))

  entropies = jnp.asarray(BATCH.entropies, jnp.float32)
  value, slope = jax.value_and_grad(loss)(entropies)
  close(value, -0.01 * peers.VERL_MEANS[mean](BATCH.entropies, BATCH.mask))
  each_token = np.eye(P * S * T).reshape(-1, P, S, T)
  want = [peers.VERL_MEANS[mean](one, BATCH.mask) for one in each_token]
  close(np.asarray(slope).ravel(), -0.01 * np.array(want))
