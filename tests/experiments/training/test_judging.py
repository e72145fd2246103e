"""A judge on a server answers questions about the samples of a run."""

import dataclasses
import hashlib
import http.server
import json
import threading
import time

import jax
import numpy as np
import pytest
from helpers import judged_shapes, small_run

from experiments import tasks
from experiments.cli import errors
from experiments.configs import defaults
from experiments.logging import json_files
from experiments.training import build, judging
from experiments.training_run import loop, validate
from rewards.judged import base
from rewards.verifiers import llm_judge

KINDS = ("good", "malformed", "busy", "broken", "slow", "large")
TIMEOUT = 0.4


def kind_of(answer):
  """Returns how the server answers about a text."""
  digest = hashlib.sha256(answer.encode()).digest()
  return KINDS[digest[0] % len(KINDS)]


def score_of(answer):
  return hashlib.sha256(answer.encode()).digest()[1] % 11


class FaultyServer(http.server.BaseHTTPRequestHandler):
  """Grades by the digest of the answer, with a fault for most answers."""

  def do_POST(self):
    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    answer = json.loads(body["messages"][-1]["content"])["answer"]
    kind = kind_of(answer)
    answers = self.server.answers
    answers.append(answer)
    reply = json.dumps({"score": score_of(answer)})
    if kind == "broken" or (kind == "busy" and answers.count(answer) == 1):
      self.send_error(500 if kind == "broken" else 429)
      return
    if kind == "malformed":
      reply = "I like it."
    elif kind == "large":
      reply += " " * 10_000_000
    message = {"choices": [{"message": {"content": reply}}]}
    try:
      if kind == "slow":
        self.wfile.write(b"HTTP/1.0 200 OK\r\nX-Slow: ")
        for _ in range(20):
          self.wfile.write(b".")
          time.sleep(TIMEOUT / 4)
        return
      self.send_response(200)
      self.end_headers()
      self.wfile.write(json.dumps(message).encode())
    except OSError:  # the client has given up
      return

  def log_message(self, *arguments):
    """Keeps quiet."""


@pytest.fixture
def server(monkeypatch):
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  monkeypatch.setattr(llm_judge.Endpoint, "pause", 0.01)
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FaultyServer)
  server.answers = []
  thread = threading.Thread(target=server.serve_forever, daemon=True)
  thread.start()
  yield server
  server.shutdown()
  server.server_close()
  thread.join()


def config(server, cache, **questions):
  settings = defaults.judge(
    f"http://127.0.0.1:{server.server_port}/v1",
    "planted",
    **(questions or {"quality": "grade()"}),
  )
  settings.timeout, settings.retries = TIMEOUT, 1
  settings.cache = str(cache)
  result = small_run.config(task="chain(operations=1)", steps=2, judge=settings)
  result.reward = "component(name='quality')"
  result.method = "rloo"
  result.rollouts_every = 1
  return result


def test_a_run_is_judged_and_a_second_one_asks_nothing_again(server, tmp_path):
  """Faults leave samples out, are counted, and are not kept as answers."""
  workdirs = tmp_path / "first", tmp_path / "second"
  metrics = []
  for workdir in workdirs:
    e = validate.check_and_build(config(server, tmp_path / "replies"), workdir)
    count = len(server.answers)
    loop.run(small_run.on_one_device(e), workdir)
    metrics.append(json_files.read(workdir / "metrics.jsonl"))
  first, second = metrics
  answers = set(server.answers[:count])
  assert {kind_of(answer) for answer in answers} == set(KINDS)
  # What had an answer is not asked again.
  again = {kind_of(answer) for answer in server.answers[count:]}
  assert again == {"broken", "slow", "large"}
  for one, other in zip(first, second, strict=True):
    for name in ("score/quality/mean", "judge/unanswered_frac", "loss/total"):
      assert one[name] == other[name]
    assert 0.3 < one["judge/unanswered_frac"] < 0.95
    assert one["reward/mean"] == one["score/quality/mean"]


@pytest.fixture(scope="module")
def chain():
  return build.make_task_from_text("chain(operations=1)")


def score(task, problems, completions):
  lengths = (completions != task.pad_id).sum(-1)
  return task.score(problems, completions, lengths, lengths > 0)


def test_answers_become_components_and_unknown_ones_masks(chain):
  """Two problems with two samples; the judge has no answer about one."""
  seen = []

  def ask(groups, complete, workers):
    seen.append((groups, complete("x"), workers))
    return np.array([[0.25, np.nan], [0.5, 0.75]], np.float32)

  def compare(groups, complete, workers):
    table = np.full((2, 2, 2), 0.5, np.float32)
    table[0, 0, 1], table[0, 1, 0] = 1, 0
    table[1, 0, 1] = table[1, 1, 0] = np.nan
    return table

  questions = {
    "quality": base.Question(ask),
    "pairs": base.Question(compare, base.PAIRS),
  }
  task = judging.judged_task(chain, questions, lambda messages: "reply", 3)
  assert not task.jittable
  problems = task.train(jax.random.key(0), 0, 2)
  gold, _ = map(np.asarray, chain.gold(problems))
  completions = np.stack([gold, np.roll(gold, 1, 0)], 1)
  judged = score(task, problems, completions)
  judged_shapes.check(task, judged)
  np.testing.assert_array_equal(
    judged.components["quality"], [[0.25, 0], [0.5, 0.75]]
  )
  # The second problem has no comparison.
  np.testing.assert_array_equal(judged.scored, [[True, False], [False, False]])
  np.testing.assert_array_equal(
    judged.extras["unanswered"], [[0, 0.5], [0.5, 0.5]]
  )
  nan = np.nan
  expected = [[[0.5, 1], [0, 0.5]], [[0.5, nan], [nan, 0.5]]]
  np.testing.assert_array_equal(judged.extras["preferences"], expected)
  judged_shapes.check(task, judged)
  # Verdicts are those of the task.
  np.testing.assert_array_equal(judged.correct[:, 0], 1)
  ((groups, reply, workers),) = seen
  assert (reply, workers) == ("reply", 3)
  (item, other), _ = groups
  assert item.prompt == chain.prompt_texts(problems)[0]
  assert item.completion == item.reference
  assert other.reference == item.reference
  assert other.completion != item.completion


def gold_samples(task, problems):
  """Returns one right completion of each problem, `[P, 1, T]`."""
  return np.asarray(task.gold(problems)[0])[:, None]


def test_a_judge_without_any_answer_ends_the_run(chain):
  def ask(groups, complete, workers):
    return np.full((2, 1), np.nan, np.float32)

  task = judging.judged_task(chain, {"q": base.Question(ask)}, None, 1)
  problems = task.train(jax.random.key(0), 0, 2)
  with pytest.raises(errors.RunError, match="'q' about any of the 2 samples"):
    score(task, problems, gold_samples(chain, problems))


def test_a_sample_without_others_is_not_left_out(chain):
  question = base.Question(
    lambda groups, complete, workers: np.full((2, 1, 1), 0.5), base.PAIRS
  )
  task = judging.judged_task(chain, {"pairs": question}, None, 1)
  problems = task.train(jax.random.key(0), 0, 2)
  assert score(task, problems, gold_samples(chain, problems)).scored.all()


def test_a_sample_is_left_out_if_it_is_compared_with_no_other(chain):
  """In each prompt one sample has no row of its own, though a column."""
  nan = np.nan
  table = np.array([[[0.5, 1], [nan, 0.5]], [[0.5, nan], [0, 0.5]]])
  question = base.Question(lambda groups, complete, workers: table, base.PAIRS)
  task = judging.judged_task(chain, {"pairs": question}, None, 1)
  problems = task.train(jax.random.key(0), 0, 2)
  samples = np.repeat(gold_samples(chain, problems), 2, 1)
  judged = score(task, problems, samples)
  np.testing.assert_array_equal(judged.scored, [[True, False], [False, True]])


def test_a_prompt_is_judged_unless_all_of_its_samples_are_blank(chain):
  group_sizes = []

  def ask(groups, complete, workers):
    group_sizes.extend(len(group) for group in groups)
    return np.full((len(groups), 2), 0.75, np.float32)

  task = judging.judged_task(chain, {"q": base.Question(ask)}, None, 1)
  problems = task.train(jax.random.key(0), 0, 2)
  samples = np.repeat(gold_samples(chain, problems), 2, 1)
  samples[0] = chain.pad_id
  samples[1, 1] = chain.pad_id
  judged = score(task, problems, samples)
  assert group_sizes == [2]
  np.testing.assert_array_equal(judged.components["q"], [[0, 0], [0.75, 0.75]])


def test_a_reference_may_be_longer_than_a_completion(chain):
  """The texts of references are read as completions, filled up with padding."""
  read = []

  def score_on_host(problems, completions, lengths, finished):
    read.append((completions, lengths, finished))
    zeros = np.zeros(lengths.shape, np.int32)
    return tasks.Judged(scores=zeros, correct=zeros, answer_ids=zeros)

  host_task = dataclasses.replace(chain, score=score_on_host, jittable=False)
  problems = jax.device_get(chain.train(jax.random.key(0), 0, 3))
  ids, lengths = map(np.asarray, chain.gold(problems))
  count = chain.completion_length + 2
  references = [" ".join([chain.text_of(ids[0, :1])] * count), "", "what?"]
  question = base.Question(lambda *_: references, base.PROMPTS)
  task = judging.judged_task(host_task, {"r": question}, str, 1)
  problems = task.train(jax.random.key(0), 0, 3)
  completions = np.stack([ids, ids], 1)
  lengths = np.stack([lengths, lengths], 1)
  task.score(problems, completions, lengths, lengths > 0)
  _, (completions, lengths, finished) = read
  expected = np.full((3, 1, count + 1), chain.pad_id)
  expected[0, 0] = [ids[0, 0]] * count + [chain.eos_id]
  expected[1, 0, 0] = chain.eos_id
  np.testing.assert_array_equal(completions, expected)
  np.testing.assert_array_equal(lengths, [[count + 1], [1], [0]])
  np.testing.assert_array_equal(finished, [[True], [True], [False]])


def test_a_question_has_a_name_of_its_own(chain):
  question = base.Question(lambda groups, complete, workers: np.ones((2, 1)))
  task = judging.judged_task(chain, {"answered": question}, None, 1)
  problems = task.train(jax.random.key(0), 0, 2)
  with pytest.raises(ValueError, match="has a component 'answered'"):
    score(task, problems, gold_samples(chain, problems))
  with pytest.raises(ValueError, match="has a component 'answered'"):
    task.judged_spec(2, 1, chain.completion_length)


def test_a_judge_sees_the_steps_and_the_verdict(chain):
  seen = []

  def ask(groups, complete, workers):
    seen.extend(item for group in groups for item in group)
    return np.ones((2, 1), np.float32)

  task = judging.judged_task(chain, {"q": base.Question(ask)}, None, 1)
  problems = task.train(jax.random.key(0), 0, 2)
  score(task, problems, gold_samples(chain, problems))
  for item in seen:
    assert item.meta["correct"] == 1
    assert len(item.meta["steps"]) == 2  # one operation, and the answer
    assert " ".join(item.meta["steps"]) == item.completion


def test_held_out_samples_are_not_judged(chain):
  def ask(groups, complete, workers):
    raise AssertionError

  questions = {"quality": base.Question(ask)}
  task = judging.judged_task(chain, questions, lambda messages: "", 1)
  problems = task.test(2)
  gold, _ = map(np.asarray, chain.gold(problems))
  judged = score(task, problems, gold[:, None])
  assert judged.scored.all()
  assert (judged.correct == 1).all()


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"url": "localhost"}, "judge: url is 'localhost'; it must start with"),
    ({"workers": 0}, "judge.workers = 0 must be at least 1"),
    ({"timeout": 0.0}, "judge: timeout is 0.0"),
    ({"key_variable": "NO_SUCH_KEY"}, "judge: key_variable is 'NO_SUCH_KEY'"),
    ({"questions": {}}, "judge.questions is empty"),
    ({"questions": {"q": "grad()"}}, "did you mean 'grade'"),
    ({"questions": {"q": "grade(hihg=5)"}}, "did you mean 'high'"),
    ({"questions": {"a b": "grade()"}}, "the name 'a b' must be letters"),
    (
      {"questions": {"p": "preference()", "q": "preference()"}},
      "p and q are both about pairs",
    ),
  ],
)
def test_mistakes_are_refused_before_a_request(changes, message):
  settings = defaults.judge("http://127.0.0.1:9/v1", "m", quality="grade()")
  with settings.unlocked():
    settings.update(changes)
    if "questions" in changes:
      settings.questions = changes["questions"]
  with pytest.raises(ValueError, match=message):
    judging.check(settings)


def test_one_question_about_steps_and_one_about_pairs_are_allowed():
  settings = defaults.judge(
    "http://127.0.0.1:9/v1", "m", pairs="preference()", steps="steps()"
  )
  settings.workers = 1
  judging.check(settings)


def test_the_mean_of_steps_leaves_out_what_is_no_step():
  values = np.array([[[1.0, 3.0, 50.0], [np.nan, np.nan, np.nan]]])
  mask = np.array([[[True, True, False], [False, False, False]]])
  np.testing.assert_array_equal(
    judging._mean_of_steps(values, mask), [[2.0, 0.0]]
  )


def test_scores_of_steps_replace_those_of_the_task(chain):
  """The judge knows the steps of the first sample alone."""
  problems = jax.device_get(chain.train(jax.random.key(0), 0, 1))
  ids, length = map(np.asarray, chain.gold(problems))
  # A truncated copy has one step less.
  completions = np.stack([ids[0], ids[0]])[None]
  lengths = np.array([[length[0], 4]])
  without_judge = jax.device_get(
    chain.score(problems, completions, lengths, lengths > 4)
  )
  assert without_judge.step_mask.sum(-1).tolist() == [[2, 1]]

  def ask(groups, complete, workers):
    assert [item.meta["steps"] for item in groups[0]] == [
      [chain.text_of(ids[0, :4]), chain.text_of(ids[0, 4 : length[0]])],
      [chain.text_of(ids[0, :4])],
    ]
    return np.array([[[0.5, -0.25], [np.nan, 0]]], np.float32)

  question = base.Question(ask, base.STEPS)
  task = judging.judged_task(chain, {"s": question}, str, 1)
  problems = task.train(jax.random.key(0), 0, 1)
  judged = task.score(problems, completions, lengths, lengths > 4)
  np.testing.assert_array_equal(
    judged.step_scores[..., :2], [[[0.5, -0.25], [0, 0]]]
  )
  assert judged.step_scores.shape == without_judge.step_mask.shape
  assert not judged.step_scores[..., 2:].any()
  assert judged.scored.tolist() == [[True, False]]
  np.testing.assert_array_equal(judged.components["s"], [[0.125, 0]])
  np.testing.assert_array_equal(judged.components["task_steps"], [[1, 1]])
  np.testing.assert_array_equal(judged.extras["unanswered"], [[0, 1]])
  judged_shapes.check(task, judged)


def test_a_task_without_steps_has_none_to_score():
  countdown = build.make_task_from_text("countdown")
  question = base.Question(lambda *_: np.zeros((1, 1, 1)), base.STEPS)
  task = judging.judged_task(countdown, {"s": question}, str, 1)
  problems = task.train(jax.random.key(0), 0, 1)
  completions = np.zeros((1, 1, countdown.completion_length), np.int32)
  with pytest.raises(ValueError, match="one is about steps, and the task has"):
    score(task, problems, completions)
  with pytest.raises(ValueError, match="one is about steps, and the task has"):
    task.judged_spec(1, 1, countdown.completion_length)
  settings = defaults.judge(
    "http://localhost", "m", a="steps()", b="thoughts()"
  )
  with pytest.raises(
    ValueError, match="a and b are both about steps; a run has"
  ):
    judging.check(settings)


def test_samples_agree_with_the_answer_of_a_written_reference(chain):
  """References: a solution of the first problem, nothing, no word of chain."""
  problems = jax.device_get(chain.train(jax.random.key(0), 0, 3))
  ids, lengths = map(np.asarray, chain.gold(problems))
  completions = np.stack([ids, ids], 1)
  completions[:, 1, 0] = chain.eos_id  # without an answer
  lengths = np.stack([lengths, np.ones_like(lengths)], 1)
  references = [chain.text_of(ids[0]), "", "what?"]
  question = base.Question(lambda *_: references, base.PROMPTS)
  task = judging.judged_task(chain, {"r": question}, str, 1)
  problems = task.train(jax.random.key(0), 0, 3)
  judged = task.score(problems, completions, lengths, lengths > 0)
  np.testing.assert_array_equal(
    judged.components["r"], [[1, 0], [0, 0], [0, 0]]
  )
  assert judged.scored.tolist() == [[True] * 2, [False] * 2, [True] * 2]
  judged_shapes.check(task, judged)


def test_probabilities_of_words_are_read_from_the_server(tmp_path):
  """Two tokens with one text, twice the same question, and no probabilities."""
  replies = [
    {
      "content": [
        {
          "top_logprobs": [
            {"token": "yes", "logprob": -0.5},
            {"token": " yes", "logprob": -2.0},
            {"token": "no", "logprob": -3.0},
          ]
        }
      ]
    },
    None,
  ]
  bodies = []

  class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
      body = self.rfile.read(int(self.headers["Content-Length"]))
      bodies.append(json.loads(body))
      message = {"message": {"content": "yes"}, "logprobs": replies.pop(0)}
      self.send_response(200)
      self.end_headers()
      self.wfile.write(json.dumps({"choices": [message]}).encode())

    def log_message(self, *arguments):
      """Keeps quiet."""

  with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = defaults.judge(
      f"http://127.0.0.1:{server.server_port}", "m", a="x"
    )
    settings.cache = str(tmp_path / "replies")
    complete = judging.make_judge(settings)
    messages = llm_judge.messages_of("system", {"a": 1})
    for _ in range(2):
      words = complete.next_words(messages)
      assert words == pytest.approx(
        {"yes": np.exp(-0.5) + np.exp(-2), "no": np.exp(-3)}
      )
    [body] = bodies
    assert body["messages"] == messages
    assert body["max_tokens"] == 1
    assert body["logprobs"] is True
    with pytest.raises(
      llm_judge.JudgeError, match="no probabilities of tokens"
    ):
      complete.next_words(llm_judge.messages_of("system", {"a": 2}))
    server.shutdown()
