"""A judge that is a policy, of a model folder or of a run."""

import json
import threading

import jax
import numpy as np
import pytest
from helpers import small_policy, small_run

from experiments import judge_lines, verify
from experiments.configs import defaults, small_judge
from experiments.evaluation import policies
from experiments.logging import json_files
from experiments.training import (
  build,
  judging,
  loop,
  policy_judge,
  validate,
)
from rewards import judged
from rewards.judged import p_yes
from rewards.verifiers import Item, judge
from rl.sampling import generation

DRAWS = 4000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return small_policy.write(tmp_path_factory.mktemp("judge") / "policy")


@pytest.fixture(scope="module")
def greedy(folder):
  return policy_judge.PolicyJudge(str(folder), max_tokens=4, batch=4)


def messages(text):
  return judge.messages_of("Reply with yes or no.", {"question": text})


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
  frequencies = judge.sum_by_text(
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
  with pytest.raises(judge.JudgeError, match=r"has \d+ tokens, and the judge"):
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
  config.reward = defaults.reward(likely=defaults.term(""))
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
  count = len(judge.ATTACKS) * 100
  assert table["(all lines)"][0] == str(200 + count)
  assert table["(attacks)"][0] == str(count)
  # A judge of the run's process, which answers by the run's own prompt.
  complete = policy_judge.PolicyJudge(str(run), batch=4, build=build.build)
  fields = p_yes.fields_of("Question 3?", "So ; good", "good")
  chances = complete.next_words(judge.messages_of("unread", fields))
  assert chances["1"] > 0.9
  # The files of a run that is started again are written again; its parameters
  # are not.
  loop.run(small_run.on_one_device(e), run)
  again = policy_judge.PolicyJudge(str(run), batch=4, build=build.build)
  assert again.identity == complete.identity
  fields = p_yes.fields_of("Question 3?", "So ;", "good")
  assert complete.next_words(judge.messages_of("unread", fields))["0"] > 0.9
  trained = policies.load_from_run(run, None, {}, cpu_devices=1)
  ids = np.array([trained.task.prompt_ids(json.dumps(fields))])
  logits, _ = trained.policy.prefill(
    trained.params, ids, np.ones(ids.shape, bool), 1, 1
  )
  expected = jax.nn.softmax(logits[0])
  [one] = trained.task.completion_ids("1")[:-1]
  np.testing.assert_allclose(
    complete.next_words(judge.messages_of("", fields))["1"],
    expected[one],
    rtol=1e-4,
  )
