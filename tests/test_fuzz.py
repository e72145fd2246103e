"""Whatever is read or computed with: a clear error or a right result.

A few examples here, always the same; 10,000 of each, new ones, with

  python -m pytest -n 2 --dist load tests/test_fuzz.py --hypothesis-profile=fuzz
"""

import json
import math
import warnings

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import small_chat, small_run, tabular_policy
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from experiments import tasks
from experiments.cli import errors, spec
from experiments.training_run import loop, validate
from models import checkpoint_reader
from rl import (
  UsageError,
  advantages,
  best_of_k,
  credit,
  methods,
  step,
  training_state,
)
from rl.update_plan import Plan

REFUSALS = (UsageError, OSError)
EXAMPLES = hypothesis.settings().max_examples
WHOLE = EXAMPLES >= 10_000
RUNS = 30 if WHOLE else 2
PARTS = 4 if WHOLE else 1  # of what takes longest, for several workers


def said_well(error, names=""):
  """One line that names something; nobody's traceback."""
  text = str(error)
  assert text
  assert names in text
  assert "\n" not in text
  assert "Traceback" not in text


# Configs


def leaves(config, prefix=""):
  for key, value in config.items():
    if hasattr(value, "items"):
      yield from leaves(value, f"{prefix}{key}.")
    else:
      yield prefix + key, value


# What is read off the disk or the network is fuzzed elsewhere; layers unrolled
# by the thousand take a while, and are no mistake.
SMALL = {"model.layers": 3, "rollout.max_tokens": 16}
LEFT = ("data.cache", "kind", "sinks", "cpu_devices")
NUMBERS = st.sampled_from([-7, -1, 0, 1, 2, 3, 4, 5, 8, 12, 16, 64, 257])
FRACTIONS = st.sampled_from(
  [-1.0, 0.0, 1e-9, 0.1, 0.5, 1.0, 2.5, 1e9, math.inf, -math.inf, math.nan]
)
WORDS = st.one_of(
  st.sampled_from(["", "grpo", "cosine", "blocked", "float64", "bfloat16"]),
  st.text(max_size=12),
)
VALUES = {
  bool: st.booleans(),
  int: NUMBERS,
  float: FRACTIONS,
  str: WORDS,
  type(None): st.one_of(st.none(), NUMBERS),
  tuple: st.lists(WORDS, max_size=2).map(tuple),
}
ARGUMENTS = st.dictionaries(
  st.sampled_from(["k", "beta", "temperature", "baseline", "clip", "tau"]),
  st.one_of(NUMBERS, FRACTIONS, st.booleans(), st.just("none")),
  max_size=2,
)


def called(name, arguments):
  words = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
  return f"{name}({words})"


METHODS = st.one_of(
  st.builds(called, st.sampled_from(methods.names()), ARGUMENTS),
  st.text(max_size=20),
)
TASKS = st.one_of(
  st.builds(
    called,
    st.sampled_from(["countdown", "chain", "closeness", "noisy", "countdwn"]),
    st.dictionaries(
      st.sampled_from(["count", "operations", "largest", "size"]),
      NUMBERS,
      max_size=2,
    ),
  ),
  st.text(max_size=20),
)


@st.composite
def changes(draw):
  labelled = dict(leaves(small_run.config()))
  free_keys = sorted(key for key in labelled if key not in LEFT)
  chosen = draw(
    st.lists(st.sampled_from(free_keys), min_size=1, max_size=4, unique=True)
  )
  result = {}
  for key in chosen:
    value = VALUES[type(labelled[key])]
    if key == "method":
      value = METHODS
    elif key == "task":
      value = TASKS
    result[key] = draw(value)
    if key in SMALL and isinstance(result[key], int):
      result[key] = min(result[key], SMALL[key])
  return result


def changed(result):
  """The config, or None where its own types refuse the value."""
  config = small_run.config()
  try:
    with config.unlocked():
      config.update_from_flattened_dict(result)
  except (TypeError, ValueError):
    return None
  return config


@pytest.mark.parametrize("part", range(PARTS))
@hypothesis.settings(max_examples=EXAMPLES // PARTS)
@hypothesis.given(changes())
def test_a_config_is_refused_in_one_line_or_builds(part, result):
  hypothesis.assume((config := changed(result)) is not None)
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
      validate.check_and_build(config, devices=jax.devices()[:1])
    except REFUSALS as error:
      said_well(error)


@pytest.mark.long
def test_configs_that_build_run(tmp_path):
  """Two steps each: finite parameters, or an end that is said in a line."""
  done = []

  @hypothesis.settings(max_examples=20 * RUNS)
  @hypothesis.given(changes())
  def collect(result):
    if len(done) == RUNS or (config := changed(result)) is None:
      return
    with config.unlocked():
      config.steps, config.log_every = 2, 1
      config.steps_per_dispatch = min(config.steps_per_dispatch, 2)
    workdir = tmp_path / str(len(done))
    try:
      e = small_run.on_one_device(validate.check_and_build(config, workdir))
    except REFUSALS:
      return
    done.append(result)
    try:
      loop.run(e, workdir)
    except errors.RunError as error:
      said_well(error)
      return
    params = checkpoint_reader.restore_params(workdir / "checkpoints")
    for leaf in jax.tree.leaves(params):
      assert np.isfinite(np.asarray(leaf, np.float32)).all(), result

  collect()
  assert len(done) == RUNS


def test_the_words_of_a_config_are_read_or_refused():
  @hypothesis.given(st.one_of(METHODS, TASKS, st.text(max_size=40)))
  def read(text):
    try:
      spec.parse(text)
    except ValueError as error:
      said_well(error)

  read()


# Lines of a user's file

VALUE = st.recursive(
  st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
  ),
  lambda inner: st.one_of(
    st.lists(inner, max_size=3),
    st.dictionaries(st.text(max_size=6), inner, max_size=3),
  ),
  max_leaves=6,
)
KEYS = ("prompt", "question", "answer", "solution", "letters", "row")
LINE = st.one_of(
  st.text(max_size=60),
  VALUE.map(json.dumps),
  st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=4).map(json.dumps),
  st.builds(
    lambda prompt, answer: json.dumps({"prompt": prompt, "answer": answer}),
    st.text(min_size=1, max_size=40),
    st.one_of(st.text(max_size=20), st.integers()),
  ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("lines")
  small_chat.write(folder / "tokenizer", template="")
  return folder


@hypothesis.settings(
  suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(LINE)
def test_a_line_is_refused_with_its_place_or_becomes_a_problem(folder, line):
  good = [json.dumps({"prompt": f"Pear {i}", "answer": i}) for i in range(30)]
  path = folder / "mine.jsonl"
  path.write_bytes("\n".join([*good, line]).encode("utf-8", "surrogatepass"))
  try:
    task = tasks.get(
      "jsonl", path=str(path), tokenizer=str(folder / "tokenizer")
    )
  except ValueError as error:
    said_well(error, "jsonl")
    return
  problems = task.train(jax.random.key(0), 0, 4)
  ids = np.asarray(problems.prompts)
  assert ((ids >= 0) & (ids < task.vocab_size)).all()


# Arrays

N = 8
SCORES = hnp.arrays(
  np.float32,
  (2, N),
  elements=st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, 1.0]),
)
MASKS = hnp.arrays(bool, (2, N))
FUNCTIONS = {
  "max_at_k_weights": lambda s, m: best_of_k.max_at_k_weights(s, 3, valid=m),
  "pass_at_k_value": lambda s, m: best_of_k.pass_at_k_value(s > 0, 3, m),
  "pass_at_k_advantages": lambda s, m: best_of_k.pass_at_k_advantages(
    s > 0, 3, valid=m
  ),
  "center": advantages.center,
  "leave_one_out": advantages.leave_one_out,
  "group_normalize": advantages.group_normalize,
  "min_form_rewards": credit.min_form_rewards,
  "returns_to_go sum": credit.returns_to_go,
  "returns_to_go min": lambda s, m: credit.returns_to_go(s, m, reduce="min"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_scores_is_finite_and_blind_to_what_is_masked(name):
  compiled = jax.jit(FUNCTIONS[name])

  @hypothesis.given(SCORES, MASKS)
  def check(scores, mask):
    result = np.asarray(compiled(scores, mask))
    assert np.isfinite(result).all()
    garbage = np.where(mask, scores, np.float32(np.nan))
    np.testing.assert_array_equal(compiled(garbage, mask), result)
    if result.shape == mask.shape:
      assert (result[~mask] == 0).all()

  check()


@pytest.fixture(scope="module")
def learner():
  m = methods.get("max_at_k", k=2)
  tx = optax.adam(0.1)
  state = training_state.init(m, tabular_policy.params(), tx, jax.random.key(0))
  return state, jax.jit(step.make(m, tabular_policy.policy, tx, Plan(epochs=2)))


ANY = st.floats(width=32)  # NaN and infinities too


def test_no_rollout_makes_a_parameter_nan(learner):
  state, train_step = learner
  reference = tabular_policy.rollout()
  shape = reference.scores.shape

  @hypothesis.given(
    hnp.arrays(np.float32, shape, elements=ANY | st.sampled_from([0.0, 1.0])),
    hnp.arrays(np.float32, reference.mask.shape, elements=ANY),
    hnp.arrays(bool, shape),
    hnp.arrays(
      np.int32,
      reference.mask.shape,
      elements=st.integers(0, tabular_policy.V - 1),
    ),
  )
  def check(scores, log_probs, sample_mask, completions):
    rollout = reference.replace(
      scores=jnp.asarray(scores),
      behavior_log_probs=jnp.asarray(log_probs),
      sample_mask=jnp.asarray(sample_mask),
      tokens=reference.tokens.replace(completions=jnp.asarray(completions)),
    )
    after, metrics = train_step(state, rollout)
    for leaf in jax.tree.leaves((after.params, after.policy.opt_state)):
      assert np.isfinite(leaf).all()
    bad = (~np.isfinite(scores) & sample_mask).any()
    assert bool(metrics["guard/bad_sample"] >= 0) == bool(bad)
    if bad:
      jax.tree.map(np.testing.assert_array_equal, after.params, state.params)

  check()
