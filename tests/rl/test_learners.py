"""Several learners in one step, in the order of the mapping."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import small_run, tabular_policy

from experiments.logging import json_files
from experiments.training import build, checkpointing, placement
from experiments.training_run import loop, validate
from models import checkpoint_reader, sharding, transformer
from rl import (
  fused_loop,
  learners,
  methods,
  parameter_sets,
  scoring,
  step,
  training_state,
  types,
)
from rl.sampling import generation
from rl.transforms import transform
from rl.update_plan import Plan
from tests.rl import test_fused_loop as real

P, S, V = 8, 4, real.MODEL.vocab_size
# Every group takes part, whatever its accuracy.
AFTER = methods.get("prime", low=0.0, high=1.0)
BEFORE = methods.get("prime", low=0.0, high=1.0, update="before")
TXS = {"policy": optax.adam(1e-2), "prm": optax.sgd(0.3, momentum=0.9)}
PLAN = Plan()
LEARNED = ("loss/", "optim/", "advantage/", "policy/", "prm/")  # metrics


def _bigram(table, tokens):
  """The logits of a token are the row of the table of the token before."""
  shape = (*tokens.completions.shape[:2], 1)
  last = jnp.broadcast_to(tokens.prompts[:, -1:, None], shape)
  before = jnp.concatenate([last, tokens.completions[..., :-1]], -1)
  return types.Scored(table[before], {"logits": lambda rows: rows})


BIGRAM = dataclasses.replace(real.BIGRAM, score=_bigram)


def recorded() -> types.Rollout:
  rollout = real.recorded()
  return rollout.replace(finished=jnp.ones_like(rollout.finished))


def table(seed):
  return jax.random.normal(jax.random.key(seed), (V, V))


def start(trained=AFTER):
  """Policy, reward model and reference differ, and momentum has built up."""
  state = training_state.init(trained, table(0), TXS, jax.random.key(9))
  prm = state.learners["prm"]
  moved = jax.tree.map(lambda x: x + 0.01 if x.ndim == 2 else x, prm.opt_state)
  prm = prm.replace(params=table(1), opt_state=moved)
  return state.replace(
    learners={**state.learners, "prm": prm}, parameter_sets={"ref": table(2)}
  )


def run(trained, state, txs=TXS, plan=PLAN, rollout=None):
  train_step = jax.jit(step.make(trained, BIGRAM, txs, plan))
  return train_step(state, recorded() if rollout is None else rollout)


def alone(name, state, trained=AFTER, prm=None):
  """One step of a single learner, whose parameter sets are frozen."""
  single = trained[name]
  rules = tuple(
    (key, parameter_sets.frozen()) for key, _ in single.parameter_sets
  )
  single = dataclasses.replace(single, parameter_sets=rules)
  params = state.parameters
  if prm is not None:
    params["prm"] = prm
  one = training_state.init(single, params[name], TXS[name], state.carried.key)
  one = one.with_policy(opt_state=state.learners[name].opt_state).replace(
    parameter_sets={key: params[key] for key, _ in rules}
  )
  return run(single, one, TXS[name])


def assert_equal(result, expected):
  jax.tree.map(np.testing.assert_array_equal, result, expected)


@pytest.fixture(scope="module")
def after():
  return run(AFTER, start())


# Each learner makes the update that it makes alone.


def test_each_of_two_learners_does_what_it_does_alone(after):
  """Bit for bit; metrics of the second learner are prefixed with its name."""
  state, metrics = after
  prm, prm_metrics = alone("prm", start())
  assert_equal(state.learners["prm"].params, prm.params)
  assert_equal(state.learners["prm"].opt_state, prm.policy.opt_state)
  policy, policy_metrics = alone("policy", start())
  assert_equal(state.params, policy.params)
  assert_equal(state.policy.opt_state, policy.policy.opt_state)
  for key, value in policy_metrics.items():
    np.testing.assert_array_equal(metrics[key], value, err_msg=key)
  of_prm = {k: v for k, v in metrics.items() if k.startswith("prm/")}
  assert "prm/loss/total" in of_prm
  for key, value in of_prm.items():
    key = key.removeprefix("prm/")
    np.testing.assert_array_equal(prm_metrics[key], value, err_msg=key)
  assert set(metrics) == {*policy_metrics, *of_prm}
  assert_equal(state.parameter_sets["ref"], start().parameter_sets["ref"])
  assert (
    np.abs(state.learners["prm"].params - start().learners["prm"].params).max()
    > 1e-3
  )
  assert np.abs(state.params - start().params).max() > 1e-3


def test_listed_first_the_reward_model_is_updated_before_it_scores(after):
  """The order of the learners decides which rewards the policy gets."""
  result, metrics = run(BEFORE, start(BEFORE))
  assert_equal(result.parameter_sets, after[0].parameter_sets)
  updated, alone_metrics = alone(
    "policy", start(), prm=result.learners["prm"].params
  )
  assert_equal(result.params, updated.params)
  name = "advantage/abs_mean"
  np.testing.assert_array_equal(metrics[name], alone_metrics[name])
  assert metrics[name] != after[1][name]


@pytest.mark.parametrize("trained", [AFTER, BEFORE], ids=["after", "before"])
def test_microbatches_change_nothing(trained, after):
  full = run(trained, start(trained))
  cut = run(trained, start(trained), plan=Plan(microbatches=4))
  for result, expected in zip(
    jax.tree.leaves((cut[0].params, cut[0].parameter_sets, cut[1])),
    jax.tree.leaves((full[0].params, full[0].parameter_sets, full[1])),
    strict=True,
  ):
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_however_often_the_policy_is_updated_the_others_are_once(after):
  """The rewards are those of the reward model before its update."""
  plan = Plan(epochs=2, minibatches=2, microbatches=2)
  state, metrics = run(AFTER, start(), plan=plan)
  np.testing.assert_allclose(
    state.learners["prm"].params, after[0].learners["prm"].params, atol=1e-6
  )
  np.testing.assert_allclose(
    metrics["advantage/std"], after[1]["advantage/std"], rtol=1e-5
  )
  counts = [
    int(optax.tree.get(s.policy.opt_state, "count")) for s in (state, after[0])
  ]
  assert counts == [4, 1]


def test_what_stays_the_same_is_scored_once():
  """Both learners read the reference, which runs one forward pass."""
  calls = []

  def score(params, tokens):
    calls.append(1)
    return _bigram(params, tokens)

  policy = dataclasses.replace(BIGRAM, score=score)
  train_step = step.make(AFTER, policy, TXS, PLAN)
  jax.eval_shape(train_step, start(), recorded())
  assert len(calls) == 4  # rewards, reference, and the loss of each learner


def test_a_need_depends_on_what_it_reads():
  top = scoring.Need("old", scoring.Probe("top", jnp.argmax))
  at_top = scoring.Probe("at_top", jnp.take, reads=(top,))
  assert scoring.Need("ref", at_top).sources == {"ref", "old"}
  assert scoring.Need("ref", scoring.log_probs).sources == {"ref"}


# No-ops.


def without_clocks(state):
  return state.replace(step=0).with_carried(key=0)


@pytest.mark.parametrize("trained", [AFTER, BEFORE], ids=["after", "before"])
def test_a_score_that_is_not_finite_stops_every_learner(trained):
  rollout = recorded()
  rollout = rollout.replace(scores=rollout.scores.at[2, 1].set(np.nan))
  state, metrics = run(trained, start(trained), rollout=rollout)
  assert_equal(without_clocks(state), without_clocks(start(trained)))
  assert metrics["optim/skipped"] == metrics["prm/optim/skipped"] == 1


def test_without_any_group_nothing_moves_not_even_by_momentum():
  """If all samples are right, no group has an accuracy in [0.2, 0.8]."""
  rollout = recorded()
  rollout = rollout.replace(correct=jnp.ones_like(rollout.correct))
  trained = methods.get("prime")
  state, metrics = run(trained, start(trained), rollout=rollout)
  assert_equal(without_clocks(state), without_clocks(start(trained)))
  assert metrics["optim/skipped"] == metrics["prm/optim/skipped"] == 1
  assert metrics["optim/grad_norm"] == metrics["prm/optim/grad_norm"] == 0


def test_a_learner_that_diverges_stops_alone():
  """The policy, which reads no reward of it, is updated all the same."""
  trained = {
    "policy": dataclasses.replace(
      methods.get("grpo", beta=0.0),
      parameter_sets=AFTER["policy"].parameter_sets,
    ),
    "prm": AFTER["prm"],
  }
  state = start(trained)
  broken = {**state.parameter_sets, "ref": jnp.full((V, V), np.nan)}
  after, metrics = run(trained, state.replace(parameter_sets=broken))
  assert metrics["prm/optim/skipped"] == 1
  assert metrics["optim/skipped"] == 0
  assert_equal(after.learners["prm"], state.learners["prm"])
  assert np.isfinite(after.params).all()
  assert np.abs(after.params - state.params).max() > 0


# The contract of a method, for both learners.


def test_padding_and_absent_samples_have_exactly_no_influence(after):
  rollout = recorded()
  tokens, absent = rollout.tokens, ~rollout.sample_mask
  outside = (~tokens.mask) | absent[..., None]
  assert absent.any()
  garbage = rollout.replace(
    tokens=tokens.replace(
      completions=jnp.where(
        outside, (tokens.completions + 5) % V, tokens.completions
      )
    ),
    scores=jnp.where(absent, np.nan, rollout.scores),
    correct=jnp.where(absent, 1 - rollout.correct, rollout.correct),
    behavior_log_probs=jnp.where(outside, np.nan, rollout.behavior_log_probs),
    finished=~absent,
  )
  result, _ = run(AFTER, start(), rollout=garbage)
  assert_equal(
    (result.params, result.parameter_sets),
    (after[0].params, after[0].parameter_sets),
  )


def test_the_order_of_the_samples_does_not_matter(after):
  order = np.random.default_rng(0).permutation(S)

  def permute(x):
    is_sampled = jnp.ndim(x) >= 2 and x.shape[:2] == (P, S)
    return x[:, order] if is_sampled else x

  result, _ = run(AFTER, start(), rollout=jax.tree.map(permute, recorded()))
  for part in ("params", "parameter_sets"):
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
      getattr(result, part),
      getattr(after[0], part),
    )


def extremes():
  rollout = recorded()
  one = jnp.ones_like(rollout.correct)
  alone = rollout.sample_mask & (jnp.arange(S) == 0)
  yield "all right", {"correct": one}, True
  yield "all wrong", {"correct": 0 * one}, True
  yield "all unknown", {"correct": -one}, False
  yield "one sample", {"sample_mask": alone}, True
  yield "no sample", {"sample_mask": alone & False}, False
  yield "truncated", {"finished": alone & False}, False
  bare = rollout.tokens.replace(mask=jnp.zeros_like(rollout.tokens.mask))
  yield "no token", {"tokens": bare}, False


def test_extreme_groups_stay_finite():
  """If no group is left, no learner is updated; all cases share a program."""
  step_fn, traces = step.make(AFTER, BIGRAM, TXS, PLAN), []

  @jax.jit
  def train_step(state, rollout):
    traces.append(len(traces))
    return step_fn(state, rollout)

  for case, changes, learns in extremes():
    state, metrics = train_step(start(), recorded().replace(**changes))
    for leaf in jax.tree.leaves(without_clocks(state)):
      assert np.isfinite(leaf).all(), case
    learned = [v for k, v in metrics.items() if k.startswith(LEARNED)]
    assert np.isfinite(learned).all(), case
    assert int(metrics["optim/skipped"]) == (0 if learns else 1), case
  assert traces == [0], "the step was traced again"


@pytest.mark.long
def test_the_step_on_a_2x2x2_mesh_is_that_of_one_device():
  """Compares the gradients of both learners, with the decoder."""
  keep = real.keep_gradient()
  txs = {"policy": keep, "prm": keep}
  params, prm, ref = (
    transformer.init(real.MODEL, jax.random.key(i)) for i in range(3)
  )
  state = training_state.init(BEFORE, params, txs, jax.random.key(2))
  learner = state.learners["prm"].replace(params=prm)
  state = state.replace(
    learners={**state.learners, "prm": learner}, parameter_sets={"ref": ref}
  )
  train_step = jax.jit(
    step.make(BEFORE, real.POLICY, txs, Plan(microbatches=2))
  )
  expected, _ = train_step(state, recorded())
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  batch = sharding.batch_sharding(mesh)
  replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  method_states = {n: x.method_state for n, x in state.learners.items()}
  bare = state.replace(
    learners={n: x.replace(method_state=()) for n, x in state.learners.items()}
  )
  placed = jax.device_put(bare, sharding.shardings(bare, mesh))
  placed = placed.replace(
    learners={
      n: x.replace(method_state=method_states[n])
      for n, x in placed.learners.items()
    }
  )
  spread = jax.tree.map(
    lambda x: jax.device_put(x, batch if jnp.ndim(x) else replicated),
    recorded(),
  )
  result, metrics = train_step(placed, spread)
  assert metrics["optim/skipped"] == metrics["prm/optim/skipped"] == 0
  for one, other in (
    (result.policy.opt_state, expected.policy.opt_state),
    (result.learners["prm"].opt_state, expected.learners["prm"].opt_state),
  ):
    one, other = (
      [np.asarray(leaf) for leaf in jax.tree.leaves(x)] for x in (one, other)
    )
    assert max(np.abs(leaf).max() for leaf in other) > 0
    real.assert_near(one, other, 1e-5)


def test_seeds_side_by_side_are_separate_runs():
  sampling = generation.Sampling(
    samples=S, max_tokens=4, eos_ids=(1,), pad_id=0
  )

  def collect(state):
    """Verdicts are whether the first token is even."""
    key = jax.random.fold_in(state.carried.key, state.step)
    base = recorded()
    keys = generation.prompt_keys(key, 0, base.prompt_ids)
    samples = generation.generate(
      BIGRAM,
      state.params,
      base.tokens.prompts,
      base.tokens.prompt_mask,
      keys,
      sampling,
    )
    mask = jnp.arange(4) < samples.lengths[..., None]
    right = samples.completions[..., 0] % 2 == 0
    tokens = base.tokens.replace(
      completions=samples.completions, lengths=samples.lengths, mask=mask
    )
    return base.replace(
      tokens=tokens,
      behavior_log_probs=samples.log_probs,
      correct=right.astype(jnp.int8),
      scores=right.astype(jnp.float32),
      step=state.step,
    )

  txs = dict.fromkeys(TXS, optax.sgd(0.1))
  train_step = step.make(AFTER, BIGRAM, txs, PLAN)
  fused = fused_loop.scan(fused_loop.iteration(collect, train_step), 3)

  def begin(key):
    policy, prm, ref = jax.random.normal(key, (3, V, V))
    state = training_state.init(AFTER, policy, txs, key)
    learner = state.learners["prm"].replace(params=prm)
    return state.replace(
      learners={**state.learners, "prm": learner}, parameter_sets={"ref": ref}
    )

  states = jax.vmap(begin)(jax.random.split(jax.random.key(0), 2))
  result, _ = jax.jit(fused_loop.over_seeds(fused))(states)
  one = jax.jit(fused)
  for i in range(2):
    expected, _ = one(jax.tree.map(lambda x, i=i: x[i], states))
    for part in ("parameter_sets", "learners"):
      jax.tree.map(
        lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-6),
        getattr(result, part),
        getattr(expected, part),
      )
  assert (
    np.abs(
      result.learners["prm"].params[0] - result.learners["prm"].params[1]
    ).max()
    > 1e-3
  )


# Errors.


def test_learners_and_parameter_sets_must_fit():
  policy, prm = AFTER["policy"], AFTER["prm"]
  tx = optax.sgd(0.1)

  def make(trained, txs):
    return lambda: step.make(trained, BIGRAM, txs, PLAN)

  rloo = methods.get("rloo")
  other = dataclasses.replace(
    prm, parameter_sets=(("ref", parameter_sets.sync(2)),)
  )
  old = dataclasses.replace(
    rloo, parameter_sets=(("old", parameter_sets.sync(2)),)
  )
  for build_step, message in (
    (make(policy, tx), "set 'prm' is learned().*'prm' is not among"),
    (make({"policy": rloo, "prm": prm}, TXS), "declares as learned"),
    (make({"prm": prm}, {"prm": tx}), "lack 'policy'"),
    (make(AFTER, tx), r"learners \['policy', 'prm'\], and optimizers for"),
    (make({**AFTER, "prm": other}, TXS), "rule sync.*frozen"),
    (make(old, tx), "cannot be named 'old'.*'old_copy'"),
  ):
    message = message.replace("()", r"\(\)")
    with pytest.raises(ValueError, match=message):
      build_step()


def test_an_error_of_tracing_is_raised_by_jax():
  """Its type takes other arguments, so that no name is added to its message."""

  @transform(takes="none", gives="sample")
  def branching(_, rollout):
    return rollout.scores if rollout.scores.sum() > 0 else -rollout.scores

  bad = dataclasses.replace(methods.get("rloo"), advantage=branching())
  params = {"policy": tabular_policy.params()}
  with pytest.raises(jax.errors.TracerBoolConversionError):
    learners.check(bad, tabular_policy.policy, params, tabular_policy.rollout())


def test_check_names_what_any_learner_lacks():
  params = tabular_policy.params()
  parameters = {"policy": params, "prm": params, "ref": params}
  learners.check(
    AFTER, tabular_policy.policy, parameters, tabular_policy.rollout()
  )
  learners.check(
    methods.get("rloo"),
    tabular_policy.policy,
    parameters,
    tabular_policy.rollout(),
  )
  del parameters["ref"]
  with pytest.raises(ValueError, match=r"prime.*parameter sets \['ref'\]"):
    learners.check(
      AFTER, tabular_policy.policy, parameters, tabular_policy.rollout()
    )
  del parameters["prm"]
  with pytest.raises(ValueError, match=r"\['prm'\] have no parameters"):
    learners.check(
      AFTER, tabular_policy.policy, parameters, tabular_policy.rollout()
    )


# From a config to a run.

OWN = {"learning_rate": 5e-2, "clip_norm": 0.0}


def experiment(**changes):
  """Every sample counts, and is right where its ids add up to an even sum."""
  changes = {"method": "prime", "learners": {"prm": OWN}, **changes}
  e = small_run.experiment(**changes)

  def score(problems, completions, lengths, finished):
    judged = e.task.score(problems, completions, lengths, finished)
    even = completions.sum(-1) % 2 == 0
    return dataclasses.replace(judged, correct=even.astype(jnp.int8))

  every = {
    k: dataclasses.replace(m, sample_filter=None) for k, m in e.methods.items()
  }
  task = dataclasses.replace(e.task, score=score)
  return dataclasses.replace(e, task=task, methods=every)


def final(e, workdir):
  with checkpointing.Checkpoints(
    workdir / checkpoint_reader.FOLDER
  ) as checkpoints:
    state, _ = checkpoints.restore(placement.abstract_state(e))
  key = jax.random.key_data(state.carried.key)
  return jax.device_get(state.with_carried(key=key))


@pytest.mark.long
def test_a_resumed_run_is_bit_identical(tmp_path, capsys):
  """The checkpoint and the log contain both learners."""
  straight, stopped = tmp_path / "straight", tmp_path / "stopped"
  loop.run(experiment(steps=6), straight)
  output = capsys.readouterr().out
  assert "prime: prm" in output
  assert "prm <- learned()" in output
  loop.run(experiment(steps=2), stopped)
  e = experiment(steps=6)
  loop.run(e, stopped)
  result, expected = final(e, stopped), final(e, straight)
  assert_equal(result, expected)
  begin = jax.device_get(placement.init_state(e))
  assert_equal(begin.learners["prm"].params, begin.params)
  moved = jax.tree.map(
    lambda a, b: np.abs(a - b).max(),
    result.learners["prm"],
    begin.learners["prm"],
  )
  assert min(jax.tree.leaves(moved)) > 0
  assert_equal(result.parameter_sets["ref"], begin.parameter_sets["ref"])
  for line in json_files.read(straight / "metrics.jsonl"):
    assert line["prm/optim/lr"] == pytest.approx(5e-2)
    assert line["optim/lr"] == pytest.approx(3e-3)
    assert 0 <= line["prm/pair_accuracy"] <= 1
    assert line["prm/optim/skipped"] == line["optim/skipped"] == 0


def test_settings_of_an_optimizer_are_the_policys_unless_they_are_set():
  """The first step of Adam has the size of its learning rate."""
  default = build.build(small_run.config(method="prime"))
  e = build.build(small_run.config(method="prime", learners={"prm": OWN}))
  params = {"w": jnp.ones(3)}
  for name, txs, rate in (
    ("policy", e.txs, 3e-3),
    ("prm", e.txs, 5e-2),
    ("prm", default.txs, 3e-3),
  ):
    tx = txs[name]
    delta, _ = tx.update({"w": jnp.full(3, 2.0)}, tx.init(params), params)
    np.testing.assert_allclose(delta["w"], -rate, rtol=1e-4)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (
      {"learners": {"prn": OWN}},
      "unknown learner of method prime 'prn'; did you mean 'prm'",
    ),
    (
      {"learners": {"prm": {"learningrate": 1}}},
      "learners.prm 'learningrate'; did you mean 'learning_rate'",
    ),
    ({"learners": {"prm": OWN}, "method": "rloo"}, "'prm'; available: none"),
  ],
)
def test_settings_of_no_learner_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    validate.check_and_build(small_run.config(**{"method": "prime", **changes}))
