"""Tests of the speed benchmarks: costs, lengths, checks, and the command."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.cli import errors
from experiments.studies.benchmark import __main__ as command
from experiments.studies.benchmark import (
  comparison,
  decode,
  eos,
  machine,
  sides,
  sizes,
  update,
)
from models import flop_counts, policy, transformer
from rl.sampling import generation

pytestmark = pytest.mark.long

MODEL = sizes.decoder(2, 128, 96)
TINY = sizes.Shape(MODEL, 4, 2, 5, 24)


def test_the_decoder_has_the_parameters_that_are_counted():
  params = jax.eval_shape(
    lambda key: transformer.init(MODEL, key), jax.random.key(0)
  )
  kernels = [leaf.size for leaf in jax.tree.leaves(params) if leaf.ndim > 2]
  assert sum(kernels) == MODEL.layers * flop_counts.weights(MODEL)


def test_counted_operations_match_the_compiler():
  """Checked on sequences of one token, which attends only to itself."""
  B = 16
  params = jax.eval_shape(
    lambda key: transformer.init(MODEL, key), jax.random.key(0)
  )
  ones = jnp.ones((B, 1), jnp.int32)
  unrolled = dataclasses.replace(MODEL, unroll=0)
  program = jax.jit(
    lambda params: transformer.logits(unrolled, params, ones, ones > 0)
  )
  compiler_count = program.lower(params).compile().cost_analysis()["flops"]
  our_count = flop_counts.forward(MODEL, tokens=B, attended=B, positions=B)
  assert our_count <= compiler_count <= 1.1 * our_count, (
    "the rest: norms and rotations"
  )


def test_every_token_is_counted_once():
  """Compares with a loop over the tokens of prompts and completions."""
  L, lengths = 3, np.array([[1, 4], [2, 5]])
  tokens = attended = positions = pairs_read = 0
  for row in lengths:
    for t in range(L):
      tokens, attended = tokens + 1, attended + t + 1
    for length in row:
      positions += length
      for t in range(length - 1):  # the last one is not fed
        tokens, attended = tokens + 1, attended + L + t + 1
        pairs_read += t + 1
  forward_flops = flop_counts.forward(MODEL, tokens, attended, positions)
  assert flop_counts.scored(MODEL, L, lengths) == forward_flops
  assert flop_counts.update_cost(MODEL, L, lengths).flops == 3 * forward_flops
  sampled = flop_counts.decode_cost(MODEL, L, lengths)
  alike = lengths.size - len(lengths)  # samples that share first logits
  per_logit = 2 * MODEL.width * MODEL.vocab_size
  assert sampled.flops == forward_flops - alike * per_logit
  # Twice the steps read the weights, and the prompts' pairs, twice as often.
  pair = 4 * 2 * MODEL.layers * MODEL.kv_heads * MODEL.head_dim
  matrices = 4 * (MODEL.layers * flop_counts.weights(MODEL) + per_logit // 2)
  steps = (lengths - 1).sum() / lengths.size
  fed = (lengths - 1).sum()
  moved = pair * (len(lengths) * L * (steps + 1) + pairs_read + fed)
  assert sampled.bytes == pytest.approx(matrices * (1 + steps) + moved)


def test_the_least_time_is_that_of_the_slower_limit():
  limits = machine.Machine(flops=10.0, bandwidth=2.0)
  assert limits.least_seconds(flop_counts.Cost(flops=40.0, bytes=2.0)) == 4
  assert limits.least_seconds(flop_counts.Cost(flops=40.0, bytes=12.0)) == 6
  done = limits.utilization(
    flop_counts.Cost(flops=40.0, bytes=2.0), seconds=8.0
  )
  assert (done["mfu"], done["bandwidth_fraction"]) == (0.5, 0.125)


@pytest.fixture(scope="module")
def never_ending():
  """Returns weights with the constant channel, and prompts."""
  params = transformer.init(MODEL, jax.random.key(3))
  prompts = np.random.default_rng(0).integers(3, MODEL.vocab_size, (4, 5))
  ids = sizes.EOS_ID, sizes.PAD_ID
  return eos.suppress_tokens(MODEL, params, ids), prompts.astype(np.int32)


@jax.jit
def draw_samples(params, prompts):
  """Draws 500 samples of each prompt."""
  sampling = generation.Sampling(
    500, TINY.max_tokens, (sizes.EOS_ID,), pad_id=0
  )
  keys = generation.prompt_keys(jax.random.key(1), 0, jnp.arange(len(prompts)))
  mask = jnp.ones(prompts.shape, bool)
  model = policy.bind(MODEL)
  return generation.generate(model, params, prompts, mask, keys, sampling)


def test_completions_have_the_fitted_mean_length(never_ending):
  params, prompts = never_ending
  mean, T = 8.0, TINY.max_tokens
  fitted = eos.fit_mean_length(
    MODEL, params, prompts, eos_id=sizes.EOS_ID, mean_length=mean, max_tokens=T
  )
  samples = draw_samples(fitted, prompts)
  lengths = np.asarray(samples.lengths, np.float64)
  error = lengths.std() / np.sqrt(lengths.size)
  assert abs(lengths.mean() - mean) < 4 * error
  # The rate h of a geometric law cut at T: mean = (1 - (1 - h)^T) / h.
  low, high = 1e-6, 1.0
  for _ in range(60):
    h = (low + high) / 2
    low, high = (h, high) if (1 - (1 - h) ** T) / h > mean else (low, h)
  tokens, ended = lengths.sum(), np.asarray(samples.finished).sum()
  deviation = np.sqrt(tokens * h * (1 - h))
  assert abs(ended - tokens * h) < 4 * deviation
  early = np.asarray(samples.lengths) <= 4
  expected = lengths.size * (1 - (1 - h) ** 4)
  spread = np.sqrt(expected * (1 - h) ** 4)
  assert abs(early.sum() - expected) < 5 * spread, "equally often at any time"


def test_suppressed_tokens_are_never_drawn(never_ending):
  samples = draw_samples(*never_ending)
  assert (samples.lengths == TINY.max_tokens).all()
  assert not samples.finished.any()
  sampled_ids = set(np.unique(samples.completions).tolist())
  others = set(range(MODEL.vocab_size)) - {sizes.EOS_ID, sizes.PAD_ID}
  assert sampled_ids == others, "all but the two, none of which is drawn"


def test_a_mean_length_out_of_range_is_refused(never_ending):
  for mean in (1.0, 24.0):
    with pytest.raises(ValueError, match="between 1 and 24"):
      eos.fit_mean_length(
        MODEL,
        *never_ending,
        eos_id=sizes.EOS_ID,
        mean_length=mean,
        max_tokens=24,
      )


@pytest.fixture(scope="module")
def tiny_job(tmp_path_factory):
  return sizes.write(TINY, tmp_path_factory.mktemp("tiny"), devices=1)


@pytest.fixture(scope="module")
def ours(tiny_job):
  launch = sides.Launch("ours", sides.OURS, tiny_job | {"kind": "sampler"})
  with sides.Side(launch) as side:
    yield side


class OtherWeights:
  """A side that answers every question with other weights."""

  def __init__(self, side, folder):
    self.launch, self._side, self._folder = side.launch, side, folder

  def ask(self, question, folder, **settings):
    del folder
    return self._side.ask(question, folder=self._folder, **settings)


def test_greedy_tokens_reveal_other_weights(ours, tiny_job, tmp_path):
  pytest.importorskip("torch")
  job = tiny_job | {"threads": 1, "dtype": "float32", "cache": "dynamic"}
  launch = sides.Launch("hf", "experiments.studies.benchmark.peers.hf", job)
  other = sizes.write(TINY, tmp_path, seed=1)
  with sides.Side(launch) as peer:
    comparison.check_same_greedy_tokens(ours, peer, print)
    with pytest.raises(errors.UsageError, match="computes something else"):
      comparison.check_same_greedy_tokens(
        ours, OtherWeights(peer, other["plain"]), print
      )
    our_call, peer_call = ours.run(1), peer.run(1)
  assert our_call.counts["lengths"] == peer_call.counts["lengths"]
  assert our_call.tokens == TINY.prompts * TINY.samples * TINY.max_tokens


def test_both_make_the_same_update(tmp_path):
  pytest.importorskip("torch")
  job = update.write_job(TINY, tmp_path)
  our_launch = sides.Launch("ours", sides.OURS, job | {"devices": 1})
  settings = {"threads": 1, "rows": 4, **update.FORMS[update.LIMITED_FORM]}
  launch = sides.Launch(
    "torch", "experiments.studies.benchmark.peers.torch", job | settings
  )
  with sides.Side(our_launch) as side:
    with sides.Side(launch) as peer:
      update.check_same_update(side, peer, print)
      first = side.run(0).counts["loss"], peer.run(0).counts["loss"]
    assert first[0] == pytest.approx(first[1], rel=1e-4)
    faster = launch.with_settings(learning_rate=2 * job["learning_rate"])
    with (
      sides.Side(faster) as peer,
      pytest.raises(errors.UsageError, match="another update: log_prob_after"),
    ):
      update.check_same_update(side, peer, print)


@pytest.fixture
def tiny_command(monkeypatch):
  """Sets a tiny shape, fixed limits of the machine, and one setting."""
  limits = machine.Machine(flops=1e12, bandwidth=1e11)
  monkeypatch.setattr(machine, "measure", lambda tell: limits)
  monkeypatch.setattr(sizes, "DECODE", {"tiny": TINY})
  monkeypatch.setattr(decode, "_options", lambda shape: {"devices": (1,)})


def test_decode_alone_end_to_end(tiny_command, tmp_path, capsys):
  file = tmp_path / "found.json"
  words = ["decode(shape='tiny', calls=2)", "--peer", "none"]
  assert command.main([*words, "--json", str(file)]) == 0
  results = json.loads(file.read_text())
  (row,) = results["rows"]
  assert row["name"] == "decode tiny"
  assert row["settings"] == {"ours": "devices 1"}
  assert row["peer"] is None
  assert row["ratio"] is None
  assert row["ours"] > 0
  assert 0 < row["bound_fraction"] < 1
  lengths = np.full((TINY.prompts, TINY.samples), TINY.max_tokens)
  cost = flop_counts.decode_cost(MODEL, TINY.prompt_length, lengths)
  assert row["work"]["flops"] == cost.flops
  assert results["machine"] == {"flops": 1e12, "bandwidth": 1e11}
  assert "decode tiny" in capsys.readouterr().out


def test_a_peer_that_is_missing_is_one_line_and_status_2(
  tiny_command, monkeypatch, capsys
):
  missing = comparison.PEERS["hf"].__class__("nothing", ("no_such_thing",))
  monkeypatch.setitem(comparison.PEERS, "hf", missing)
  assert command.main(["decode(shape='tiny')"]) == 2
  error_lines = capsys.readouterr().err.splitlines()
  assert len(error_lines) == 1
  assert "no_such_thing" in error_lines[0]


@pytest.mark.parametrize(
  ("words", "suggestion"),
  [
    (["decode(shape='smal')"], "small"),
    (["decode", "--peer", "hff"], "hf"),
    (["decode", "--python", "tunix"], "PEER=PATH"),
    (["objectives", "--peer", "hf"], "peer"),
  ],
)
def test_mistakes_name_the_valid_choices(words, suggestion, capsys):
  assert command.main(words) == 2
  assert suggestion in capsys.readouterr().err
