"""A judge that is a policy, of a model folder or of a run."""

import hashlib
import json
import threading
import types

import jax
import ml_collections
import numpy as np
import pytest
from helpers import small_policy, small_run

from experiments import judge_lines, verify
from experiments.configs import defaults, small_judge
from experiments.evaluation import policy_loader
from experiments.logging import json_files
from experiments.training import (
  build,
  judging,
  policy_judge,
  prng_keys,
  workdirs,
)
from experiments.training_run import loop, validate
from models import checkpoint_reader
from rewards import judged
from rewards.judged import p_yes
from rewards.verifiers import Item, llm_judge
from rl.sampling import generation

DRAWS = 4000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return small_policy.write(tmp_path_factory.mktemp("judge") / "policy")


@pytest.fixture(scope="module")
def greedy(folder):
  return policy_judge.PolicyJudge(str(folder), max_tokens=4, batch=4)


def messages(text):
  return llm_judge.messages_of("Reply with yes or no.", {"question": text})


def test_a_judge_is_greedy_and_reads_eight_questions_at_a_time(folder):
  """Unless it is told otherwise."""
  complete = policy_judge.PolicyJudge(str(folder))
  task = complete._task
  assert complete._sampling == generation.Sampling(
    samples=1,
    max_tokens=256,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
    temperature=0.0,
  )
  assert complete._batch == 8


@pytest.mark.parametrize(
  ("longest", "padded"),
  [
    (1, 64),
    (64, 64),
    (65, 100),
    (100, 100),
    (101, 256),
    (257, 512),
    (513, 1024),
  ],
)
def test_prompts_are_padded_on_the_left_to_few_lengths(
  longest, padded, monkeypatch
):
  """Two prompts in a batch of three, whose last row repeats the first."""
  calls = []

  def first_tokens(policy, params, ids, mask):
    calls.append((policy, params, ids, mask))
    return np.full((3, 1), 0.5), np.arange(3)[:, None]

  monkeypatch.setattr(policy_judge, "_first_tokens", first_tokens)
  self = types.SimpleNamespace(
    _batch=3,
    _policy="policy",
    _params=None,
    _load=lambda: "params",
    _task=types.SimpleNamespace(
      prompt_length=100, pad_id=7, decode=lambda ids: f"word {ids[0]}"
    ),
  )
  prompts = [list(range(20, 20 + longest)), [11]]
  answers = policy_judge.PolicyJudge._compute(self, prompts, True)
  assert answers == [{"word 0": 0.5}, {"word 1": 0.5}]
  ((policy, params, ids, mask),) = calls
  assert (policy, params) == ("policy", "params")
  first = [7] * (padded - longest) + prompts[0]
  np.testing.assert_array_equal(ids, [first, [7] * (padded - 1) + [11], first])
  np.testing.assert_array_equal(mask.sum(-1), [longest, 1, longest])
  assert mask[:, -1].all()
  # The parameters are loaded once.
  self._load = None
  policy_judge.PolicyJudge._compute(self, prompts, True)


def test_a_reply_ends_with_its_last_token(monkeypatch):
  calls = []

  def generate(policy, params, ids, mask, keys, sampling):
    calls.append((policy, params, keys, sampling))
    return generation.Samples(
      completions=np.array([[[5, 6, 7]], [[8, 9, 7]]]),
      lengths=np.array([[3], [1]]),
      log_probs=None,
      finished=None,
    )

  monkeypatch.setattr(policy_judge.drawing, "generate", generate)
  self = types.SimpleNamespace(
    _batch=2,
    _policy="policy",
    _params="params",
    _sampling="sampling",
    _task=types.SimpleNamespace(prompt_length=100, pad_id=7, text_of=list),
  )
  replies = policy_judge.PolicyJudge._compute(self, [[3, 4], [2]], False)
  assert replies == [[5, 6, 7], [8]]
  ((policy, params, keys, sampling),) = calls
  assert (policy, params, sampling) == ("policy", "params", "sampling")
  # Padding has no influence on the identity.
  expected = [policy_judge._identity(np.array(x)) for x in ([3, 4], [2])]
  np.testing.assert_array_equal(
    *map(jax.random.key_data, (keys, policy_judge._keys(np.array(expected))))
  )


def test_the_number_of_a_prompt_has_31_bits_of_its_digest():
  for i in range(16):
    ids = np.array([i, 5], np.int32)
    digest = hashlib.blake2b(ids.tobytes(), digest_size=4).hexdigest()
    number = int(digest, 16) % 2**31
    assert policy_judge._identity(ids.astype(np.int64)) == number


def test_the_random_numbers_of_a_reply_depend_on_its_prompt():
  identities = np.array([3, 2**31 - 1])
  keys = policy_judge._keys(identities)
  key = prng_keys.from_seed(0)
  for i, identity in enumerate(identities):
    np.testing.assert_array_equal(
      *map(jax.random.key_data, (keys[i], jax.random.fold_in(key, identity)))
    )


@pytest.mark.parametrize(("tokens", "words"), [(150, 100), (3, 3)])
def test_the_likeliest_words_have_probabilities(tokens, words):
  """Of one prompt, whose logits are logarithms of 1, 2, 3, ..."""
  room = []

  def prefill(params, prompts, mask, samples, max_tokens):
    room.append((samples, max_tokens))
    return np.log(np.arange(1.0, tokens + 1))[None], None

  bound = types.SimpleNamespace(prefill=prefill)
  p, ids = policy_judge._first_tokens.__wrapped__(bound, None, None, None)
  likely = np.arange(tokens, tokens - words, -1)
  total = tokens * (tokens + 1) / 2
  np.testing.assert_allclose(p, [likely / total], rtol=1e-5)
  np.testing.assert_array_equal(ids, [likely - 1])
  # Nothing is decoded after the first token.
  assert room == [(1, 1)]


def test_the_policy_of_a_run_is_read_on_one_device(tmp_path, monkeypatch):
  """Without its models, judge and trip wires, and without a second mesh."""
  (tmp_path / checkpoint_reader.FOLDER / "5").mkdir(parents=True)
  config = small_run.config()
  config.mesh.fsdp, config.mesh.context = 2, 2
  config.inference.devices, config.inference.ahead = 3, 1
  for name in ("models", "judge", "trip_wires"):
    with config.unlocked():
      config[name] = ml_collections.ConfigDict({"some": "thing"})
  monkeypatch.setattr(checkpoint_reader, "latest_step", lambda folder: 5)
  monkeypatch.setattr(workdirs, "read_config", lambda folder: config)
  monkeypatch.setattr(
    checkpoint_reader,
    "restore_params",
    lambda folder, shapes, step: {
      "read": (folder.name, shapes, step),
      "both": "trained",
    },
  )
  monkeypatch.setattr(
    policy_judge.initial_state,
    "frozen_params",
    lambda e, folder: {"frozen": folder, "both": "frozen"},
  )
  calls = []

  def build_experiment(config, devices):
    calls.append((config, list(devices)))
    return types.SimpleNamespace(
      task=types.SimpleNamespace(prompt_ids=lambda text: [len(text)]),
      policy="policy",
    )

  monkeypatch.setattr(
    policy_judge.placement,
    "abstract_state",
    lambda e: types.SimpleNamespace(params="shapes"),
  )

  self = types.SimpleNamespace(_folder=tmp_path)
  policy_judge.PolicyJudge._open_run(self, build_experiment)
  ((read_config, devices),) = calls
  assert devices == [jax.local_devices()[0]]
  for name in ("models", "judge", "trip_wires"):
    assert not read_config[name]
  assert (read_config.inference.devices, read_config.inference.ahead) == (0, 0)
  assert read_config.mesh.to_dict() == {
    "replica": None,
    "data": -1,
    "fsdp": None,
    "tensor": None,
    "context": 1,
  }
  assert self._policy == "policy"
  assert self.identity.startswith(f"{tmp_path} 5 ")
  turns = [{"content": "system"}, {"content": "four"}]
  assert self._encode(turns) == [4]
  assert self._load() == {
    "read": (checkpoint_reader.FOLDER, "shapes", 5),
    "frozen": tmp_path,
    "both": "trained",
  }


def test_a_run_without_a_checkpoint_is_no_judge(tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoint_reader, "latest_step", lambda folder: None)
  self = types.SimpleNamespace(_folder=tmp_path)
  with pytest.raises(ValueError, match="has no checkpoint; train it first"):
    policy_judge.PolicyJudge._open_run(self, None)


def test_a_question_may_have_as_many_tokens_as_the_judge_reads():
  self = types.SimpleNamespace(
    _encode=lambda text: [1] * len(text),
    _task=types.SimpleNamespace(prompt_length=3),
    _waiting=[],
    _computes=threading.Lock(),
  )

  def answer():
    self._waiting.pop().answer.set_result("yes")

  self._answer_some = answer
  ask = policy_judge.PolicyJudge._ask
  assert ask(self, "123", reads_words=False) == "yes"
  with pytest.raises(
    llm_judge.JudgeError, match=r"has 4 tokens, and .* up to 3"
  ):
    ask(self, "1234", reads_words=False)


def test_p_of_words_is_the_frequency_of_samples(greedy):
  """One forward pass against 4,000 samples of the first token."""
  chances = greedy.next_words(messages("Is 2 + 2 = 4?"))
  # Sampled by the decoder with temperature 1, from the same prompt.
  task = greedy._task
  ids = task.encode_turns(messages("Is 2 + 2 = 4?"))
  sampling = generation.Sampling(
    samples=DRAWS, max_tokens=1, eos_ids=task.eos_ids, pad_id=task.pad_id
  )
  samples = generation.generate(
    greedy._policy,
    greedy._params,
    np.array([ids]),
    np.ones((1, len(ids)), bool),
    jax.random.split(jax.random.key(0), 1),
    sampling,
  )
  tokens, counts = np.unique(samples.completions, return_counts=True)
  frequencies = llm_judge.sum_by_text(
    (task.decode([token]), count / DRAWS)
    for token, count in zip(tokens, counts, strict=True)
  )
  # Texts of many tokens, beyond the most likely ones: no text, and cut bytes.
  words = chances.keys() - {"", "\ufffd"}
  likely = sorted(words, key=chances.get)[-20:]
  assert chances[likely[-1]] > 0.01
  for word in likely:
    p = chances[word]
    error = np.sqrt(p * (1 - p) / DRAWS)
    assert abs(frequencies.get(word, 0) - p) < 4.5 * error, word


def test_questions_that_wait_are_answered_together(folder, greedy, monkeypatch):
  """Six threads, batches of four: replies as of one question at a time."""
  texts = [f"Is {i} + {i} = {2 * i}?" for i in range(6)]
  alone = [greedy(messages(text)) for text in texts]
  together = policy_judge.PolicyJudge(str(folder), max_tokens=4, batch=4)
  compute, sizes = together._compute, []
  is_first = threading.Event()

  def slowly(prompts, reads_words):
    sizes.append(len(prompts))
    if not is_first.is_set():
      is_first.set()
      while len(together._waiting) < 5:  # until all others wait
        pass
    return compute(prompts, reads_words)

  monkeypatch.setattr(together, "_compute", slowly)
  replies = {}

  def ask(text):
    replies[text] = together(messages(text))

  threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert [replies[text] for text in texts] == alone
  assert sizes == [1, 4, 1]
  assert len(set(alone)) > 1


def test_kinds_of_questions_wait_apart(greedy):
  """A reply and probabilities asked at the same time."""
  results = {}

  def reply():
    results["reply"] = greedy(messages("Is it?"))

  def words():
    results["words"] = greedy.next_words(messages("Is it?"))

  threads = [threading.Thread(target=f) for f in (reply, words) * 3]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert results["reply"] == greedy(messages("Is it?"))
  assert 0.5 < sum(results["words"].values()) <= 1.001


def test_samples_of_a_judge_with_temperature(folder):
  """Replies depend on the prompt alone, and differ between prompts."""
  warm = policy_judge.PolicyJudge(str(folder), temperature=1.0, max_tokens=3)
  first = [warm(messages(f"{i}?")) for i in range(4)]
  assert first == [warm(messages(f"{i}?")) for i in range(4)]
  assert len(set(first)) > 1


def test_what_a_judge_refuses(folder, greedy, tmp_path):
  with pytest.raises(
    llm_judge.JudgeError, match=r"has \d+ tokens, and the judge"
  ):
    greedy(messages("1 " * 4000))
  # The error is of that question alone.
  question = judged.get("p_yes", yes="1", no="2")
  values = question.ask(
    [[Item("1?", x, "") for x in ("1", "2 " * 4000)]], greedy, 2
  )
  assert np.isnan(values).tolist() == [[False, True]]
  untemplated = small_policy.write(tmp_path / "raw", template="")
  with pytest.raises(ValueError, match="has no chat template"):
    policy_judge.PolicyJudge(str(untemplated))
  settings = defaults.policy_judge("", quality="grade()")
  with pytest.raises(ValueError, match="exactly one of them must name a judge"):
    judging.check(settings)
  settings.policy = str(tmp_path / "none")
  with pytest.raises((ValueError, OSError), match="none"):
    judging.check(settings)


def test_a_policy_has_no_embeddings(folder):
  settings = defaults.policy_judge(str(folder), near="relevance()")
  with pytest.raises(ValueError, match="near ask for embeddings"):
    judging.check(settings)


def test_a_run_is_paid_by_p_yes(folder, tmp_path):
  config = small_run.config(task="chain(operations=1)", steps=2)
  config.judge = defaults.policy_judge(str(folder), likely="p_yes(yes='2')")
  config.judge.cache = str(tmp_path / "replies")
  config.reward = "likely"
  config.method, config.rollouts_every = "rloo", 1
  e = validate.check_and_build(config, tmp_path / "run")
  loop.run(small_run.on_one_device(e), tmp_path / "run")
  for line in json_files.read(tmp_path / "run" / "metrics.jsonl"):
    assert line["judge/unanswered_frac"] == 0
    assert 0 < line["reward/mean"] == line["score/likely/mean"] < 1


def test_a_judge_is_trained_on_lines_and_is_asked(tmp_path, capsys):
  """A response is right if it is "good"; openings are wrong."""
  data = [
    {
      "question": f"Question {i}?",
      "reference": "good",
      "response": f"So ; {word}",
      "label": word == "good",
    }
    for i in range(100)
    for word in ("good", "bad")
  ]
  responses, lines = tmp_path / "responses.jsonl", tmp_path / "lines.jsonl"
  json_files.write(responses, data)
  words = ["--data", str(responses), "--out", str(lines), "--openings", "0.5"]
  assert judge_lines.main(words) == 0
  config = small_judge.get_config("fit")
  small = small_run.config(steps=60)
  for key in ("model", "evaluation", "sinks", "steps", "log_every"):
    config[key] = small[key]
  config.data.file, config.data.cache = str(lines), str(tmp_path)
  config.rollout.prompts, config.optimizer.learning_rate = 16, 1e-2
  config.optimizer.warmup_steps = 5
  run = tmp_path / "judge"
  e = validate.check_and_build(config, run)
  loop.run(small_run.on_one_device(e), run)
  capsys.readouterr()
  question = "p_yes(yes='1', no='0', gated=False)"
  words = ["--data", str(responses), "--judge_policy", str(run)]
  assert verify.main([*words, "--question", question, "--attacks"]) == 0
  printed = capsys.readouterr().out
  rows = [line.split("│") for line in printed.splitlines() if "│" in line]
  table = {row[1].strip(): [cell.strip() for cell in row[2:-1]] for row in rows}
  count = len(llm_judge.ATTACKS) * 100
  assert table["(all lines)"][0] == str(200 + count)
  assert table["(attacks)"][0] == str(count)
  # A judge of the run's process, which answers by the run's own prompt.
  complete = policy_judge.PolicyJudge(str(run), batch=4, build=build.build)
  fields = p_yes.fields_of("Question 3?", "So ; good", "good")
  chances = complete.next_words(llm_judge.messages_of("unread", fields))
  assert chances["1"] > 0.9
  # The files of a run that is started again are written again; its parameters
  # are not.
  loop.run(small_run.on_one_device(e), run)
  again = policy_judge.PolicyJudge(str(run), batch=4, build=build.build)
  assert again.identity == complete.identity
  fields = p_yes.fields_of("Question 3?", "So ;", "good")
  assert complete.next_words(llm_judge.messages_of("unread", fields))["0"] > 0.9
  trained = policy_loader.load_from_run(run, None, {}, cpu_devices=1)
  ids = np.array([trained.task.prompt_ids(json.dumps(fields))])
  logits, _ = trained.policy.prefill(
    trained.params, ids, np.ones(ids.shape, bool), 1, 1
  )
  expected = jax.nn.softmax(logits[0])
  [one] = trained.task.completion_ids("1")[:-1]
  np.testing.assert_allclose(
    complete.next_words(llm_judge.messages_of("", fields))["1"],
    expected[one],
    rtol=1e-4,
  )
