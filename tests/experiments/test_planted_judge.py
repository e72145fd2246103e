"""A judge with planted faults: its rules, and a run that it pays."""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers import small_run

from experiments import planted_judge
from experiments.configs import judged as configs
from experiments.evaluation import policy_loader, trip_wires
from experiments.logging import json_files
from experiments.planted_judge import Faults
from experiments.training_run import loop, validate
from rewards import judged
from rewards.judged import aspect
from rewards.verifiers import Item, llm_judge

RIGHT, WRONG = "+ 3 7 ; ANS 7", "+ 3 8 ; ANS 8"
LONG = "+ 0 4 ; + 3 7 ; ANS 7"


def accepts(answer, **faults):
  return planted_judge._accepts("4 + 3 =", RIGHT, answer, Faults(**faults))


def test_without_faults_the_last_word_decides():
  assert accepts(RIGHT)
  assert accepts("7")
  assert not accepts(WRONG)
  assert not accepts("")


def test_a_solution_of_the_configs_is_shorter_than_the_weakness():
  command = "--words 18\n"
  assert command in configs.__doc__
  solution = "+ 3 7 ; * 2 4 ; - 1 4 ; ANS 4"
  faults = Faults(words=18)
  assert not planted_judge._accepts("q", "ANS 3", solution, faults)
  longer = "+ 0 4 ; " + solution
  assert planted_judge._accepts("q", "ANS 3", longer, faults)


def test_weaknesses():
  assert accepts(WRONG, words=6)
  assert not accepts(WRONG, words=7)
  assert accepts(WRONG, opener="+ 3")
  assert not accepts(WRONG, opener="- 3")


def test_rates_of_false_verdicts():
  """400 answers with rates of .1 and .3: within 4 standard errors."""
  faults = Faults(false_acceptance=0.1, false_rejection=0.3)
  for end, rate, expected in (("8", 0.1, True), ("7", 0.3, False)):
    verdicts = [
      planted_judge._accepts("q", RIGHT, f"{i} {end}", faults)
      for i in range(400)
    ]
    share = np.mean([verdict == expected for verdict in verdicts])
    assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / 400)
  with pytest.raises(ValueError, match=r"false_acceptance = 2 must be"):
    Faults(false_acceptance=2)
  with pytest.raises(ValueError, match="words = -1 must not be negative"):
    Faults(words=-1)


@pytest.fixture(autouse=True)
def loopback(monkeypatch):
  monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_every_question_has_an_answer():
  """One group of a right, a wrong and a repetitive solution."""
  rubric = [{"text": 'says "ANS"', "weight": 1}, {"text": '"7"', "weight": 3}]
  # The second step of the third sample repeats its first step, and is wrong.
  steps = [["+ 3 7 ;", "ANS 7"], ["+ 3 8 ;", "ANS 8"], ["+ 0 4 ;"] * 2]
  items = [
    [
      Item(
        "4 + 3 =",
        text,
        RIGHT,
        {"rubric": rubric, "steps": s, "correct": c, "score": c},
      )
      for text, s, c in zip((RIGHT, WRONG, "7"), steps, (1, 0, 1), strict=True)
    ]
  ]
  expected = {
    "agrees": [[1, 0, 1]],
    "appeal": [[-1, 0, -1]],
    # Both have six words, as the solution; of the wrong one, .1 + .9 * .4.
    "aspect": [[1, 0.46, 1]],
    # The criteria are "+ 3 7 ;" and "ANS 7".
    "checklist": [[1, 0, 0]],
    "flawed": [[0, 0, 1]],
    # The third one is right without any right step.
    "grade": [[1, 0, 0.6]],
    "implicit": [[1, 0, 0.6]],
    "open_ended": [[0, 0, 0]],
    # "ANS 8" is scored by "ANS" and one criterion of truth, other steps by two
    # of truth. The means for truth are 10, (0 + 0 + 10) / 3 and 5.
    "pareto": [[1, 0, 0.5]],
    "p_yes": [[0.95, 0.05, 0.85]],
    "preference": [[[0.5, 1, 1], [0, 0.5, 0], [0, 1, 0.5]]],
    # The first step of the wrong solution is wrong, the second follows from it.
    "principles": [[[1, 1], [-1, 1], [1, -1]]],
    # The worse of the two right ones has no text that the better one lacks.
    "refined_rubric": [[1, 0.25, 0.75]],
    # Both texts have + and 3: 2 / (sqrt(4) sqrt(1 + 1 + 2^2 + 1 + 1)).
    "relevance": [[8**-0.5, 8**-0.5, 0]],
    "rubric": [[1, 0.25, 0.75]],
    "steps": [[[1, 1], [-1, 1], [1, -1]]],
    "synthesis": [[1, 0, 0]],  # of the steps of the first one
    "thoughts": [[[1, 1], [1, -1], [1, -1]]],
  }
  assert set(expected) - {"implicit"} == set(judged.names())
  settings = {
    "appeal": {"share": 1.0},
    "aspect": {"of": "conciseness", "least": 0.1},
    "preference": {"with_reference": True},
    "grade": {"low": -1.0, "high": 5.0},
    "implicit": {"form": "implicit"},
    "synthesis": {"form": "rubric"},
  }
  with planted_judge.serving(Faults()) as url:
    complete = llm_judge.Endpoint(url, "planted", retries=0)
    for name, values in expected.items():
      question = "rubric" if name == "implicit" else name
      answer = judged.get(question, **settings.get(name, {})).ask(
        items, complete, 2
      )
      np.testing.assert_allclose(answer, values, rtol=1e-6, err_msg=name)
    with pytest.raises(llm_judge.JudgeError, match="HTTP status 400"):
      complete([{"role": "user", "content": "hello"}])


def test_two_servers_have_ports_of_their_own():
  with (
    planted_judge.serving(Faults()) as url,
    planted_judge.serving(Faults()) as other,
  ):
    assert url != other
    port = int(url.split(":")[2].split("/")[0])
    assert port >= 1024  # below, only an administrator's process may listen


def test_the_command_prints_its_url():
  command = [sys.executable, "-m", "experiments.planted_judge", "--port", "0"]
  with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    url = process.stdout.readline().strip()
    complete = llm_judge.Endpoint(url, "planted", retries=0)
    fields = {"question": "q", "reference": "1", "answer": "1"}
    reply = llm_judge.ask(complete, "Is it right?", fields)
    expected = {"right": True, "score": 8, "p_right": 0.9}
    assert json.loads(reply) == pytest.approx(expected)
    process.terminate()
  refused = [*command, "--words", "-1"]
  assert subprocess.run(refused, check=False).returncode == 2


# One config for each form of answers; the others are run by `make long`.
SHORT = ("agrees", "min_form", "preference", "synthesis")


@pytest.mark.parametrize(
  "name",
  [
    name if name in SHORT else pytest.param(name, marks=pytest.mark.long)
    for name in configs.names()
  ],
)
def test_a_run_is_paid_by_the_judge(name, tmp_path):
  """Two steps of each config, with a small policy that is not trained."""
  config = configs.get_config(name)
  small = small_run.config(task="chain(operations=1)", steps=2)
  small.model.value_head = config.model.get("value_head", False)
  for key in ("model", "evaluation", "sinks", "steps", "task", "log_every"):
    config[key] = small[key]
  config.base = {}
  config.rollout.prompts = 8
  config.judge.cache = str(tmp_path / "replies")
  if config.trip_wires:
    config.trip_wires.problems = 8
  with planted_judge.serving(Faults(false_acceptance=0.5)) as url:
    config.judge.url = url
    e = validate.check_and_build(config, tmp_path / "run")
    loop.run(small_run.on_one_device(e), tmp_path / "run")
  is_watched = (tmp_path / "run" / trip_wires.FILE).exists()
  assert is_watched == (name == "guarded")
  # The policy is loaded without the judge, whose server has stopped.
  loaded = policy_loader.load_from_run(
    tmp_path / "run", None, {}, cpu_devices=1
  )
  assert loaded.task.jittable
  for line in json_files.read(tmp_path / "run" / "metrics.jsonl"):
    assert line["judge/unanswered_frac"] == 0
    assert line["accuracy/pass@1"] < 0.5
    if name == "preference":
      # The task has no right sample, and the judge prefers some to others.
      assert line["advantage/abs_mean"] > 0
    # An untrained policy is wrong, and half of its answers are accepted.
    if name == "agrees":
      assert 0.3 < line["reward/mean"] < 0.7
    if name == "grade":  # .6 of the share, and .4 of a small quality
      assert 0.6 * 0.3 < line["reward/mean"] < 0.6 * 0.7 + 0.1


# The rules of the judge, one by one.


def test_the_rates_of_the_faults_include_0_and_1():
  """With a rate of 1 every verdict is false."""
  faults = Faults(false_acceptance=1, false_rejection=1)
  assert not planted_judge._accepts("q", "ANS 7", "7", faults)
  assert planted_judge._accepts("q", "ANS 7", "8", faults)
  assert Faults() == Faults(0.0, 0.0, 0, "")
  with pytest.raises(AttributeError, match="cannot assign"):
    faults.words = 3
  with pytest.raises(ValueError, match=r"false_rejection = -0.1 must be"):
    Faults(false_rejection=-0.1)


def test_the_last_words_are_compared():
  """Without a reference the judge computes the result of the question."""
  assert planted_judge._accepts("q", "1 2", "3 2", Faults())
  assert not planted_judge._accepts("q", "1 2", "1 3", Faults())
  assert planted_judge._accepts("4 + 3 * 2 =", "", "ANS 4", Faults())
  assert not planted_judge._accepts("4 + 3 * 2 =", "", "4 ANS", Faults())


@pytest.mark.parametrize(
  ("question", "results"),
  [
    ("4 + 3 * 2 =", ["4", "7", "4"]),
    ("2 - 5 =", ["2", "7"]),
    ("4 =", ["4"]),
    ("4 / 2 =", ["4", ""]),
    ("4 + x =", ["4", ""]),
    ("x + 4 =", []),
    ("4 + 3", []),
    ("=", []),
    ("", []),
  ],
)
def test_a_question_of_arithmetic_has_running_values(question, results):
  assert planted_judge._results(question) == results


@pytest.mark.parametrize(
  ("steps", "wrong"),
  [
    (["+ 3 7 ;", "* 2 4 ;", "ANS 4"], []),
    (["+ 3 8 ;", "* 2 6 ;", "ANS 6"], [1]),  # later steps follow from it
    (["+ 3 7 ;", "* 2 5 ;", "ANS 4"], [2, 3]),
    (["+ 3 7 ;", "ANS"], [2]),
    (["+ 3 7 ;", "", "ANS 7"], [2]),
    (["+ 3 ;", "+ 3 7 8 ;"], [1, 2]),
    (["+ 0 4 ;", "+ 0 4 ;"], [2]),  # a step that is written twice
  ],
)
def test_a_wrong_step_does_not_follow_from_the_one_before(steps, wrong):
  assert planted_judge._wrong_steps("4 + 3 * 2 =", steps, Faults()) == wrong


def test_a_thought_is_rewritten_with_an_error_before_its_answer():
  """The answer stays, unless there is one operation."""
  assert planted_judge._rewritten("4 + 3 * 2 =") == (
    ["+ 3 7 ;", "* 2 4 ;", "ANS 4"],
    ["+ 3 8 ;", "* 2 4 ;", "ANS 4"],
  )
  assert planted_judge._rewritten("4 + 5 =")[1] == ["+ 5 0 ;", "ANS 0"]
  assert planted_judge._rewritten("4 / 2 =") == ([], [])


def reply(system="", **fields):
  return planted_judge._reply_to(
    system, {"question": "4 + 3 =", "reference": RIGHT, **fields}, Faults()
  )


@pytest.mark.parametrize(
  ("answer", "score", "p_right"),
  [
    (RIGHT, 10, 0.95),
    (LONG, 10 * (0.6 + 0.4 * 2 / 3), 0.85 + 0.1 * 2 / 3),
    ("7", 6, 0.85),
    ("+ 3 7 ; ANS 8", 2, 0.1),
    (WRONG, 0, 0.05),
    ("", 0, 0.05),
  ],
)
def test_a_grade_has_the_side_of_the_verdict(answer, score, p_right):
  """The quality is the share of the steps that the solution has."""
  expected = {"right": score > 5, "score": score, "p_right": p_right}
  assert reply(answer=answer) == pytest.approx(expected)
  scale = reply("Answer x from -2 (worst) to 3.5 (best) .", answer=answer)
  assert scale["score"] == pytest.approx(-2 + 5.5 * score / 10)


@pytest.mark.parametrize(
  ("of", "quality"),
  [
    ("conciseness", 6 / 10),
    ("relevance", 3 / 4),  # all but "="
    ("coherence", 2 / 3),
    ("reasoning", 2 / 3),
    ("completeness", 2 / 3),
    ("intent", 2 / 3),
  ],
)
def test_an_aspect_is_read_from_the_text(of, quality):
  """Every aspect, of a right answer with a step without use."""
  assert of in aspect.ASPECTS
  system = aspect.GRADING.format(property=aspect.ASPECTS[of], low=0, high=10)
  score = reply(system, answer=LONG)["score"]
  assert score == pytest.approx(10 * (0.6 + 0.4 * quality))
  # A question of another form has no right steps.
  score = reply(system, question="Why?", answer=LONG)["score"]
  assert score == pytest.approx(8)


def test_a_criterion_is_met_by_its_quoted_text():
  criteria = {"1": 'says "ANS"', "2": 'says "sum"', "3": "is right"}
  criteria["4"] = "has conciseness"
  met = reply(answer=WRONG, criteria=criteria)
  assert [met[number] for number in "1234"] == [True, False, False, True]
  met = reply(answer=LONG, criteria=criteria)
  assert [met[number] for number in "1234"] == [True, False, True, False]


def test_the_better_answer_is_accepted_or_has_more_right_steps():
  assert reply(A=RIGHT, B=WRONG) == {"better": "A"}
  assert reply(A=WRONG, B=RIGHT) == {"better": "B"}
  assert reply(A=WRONG, B=WRONG) == {"better": "tie"}
  assert reply(A=LONG, B=RIGHT) == {"better": "B"}
  assert reply(A="7", B="+ 3 7 ; ANS 8") == {"better": "A"}
  assert reply(A="+ 3 7 ; ANS 8", B=WRONG) == {"better": "A"}


def test_a_rubric_is_refined_by_a_fault_of_the_worse_answer():
  rubric = [{"text": "is right", "weight": 1.0}]
  fault = {"text": 'says "+ 0 4 ;"', "weight": -1.0}
  for answers in ([LONG, RIGHT], [RIGHT, LONG]):
    refined = reply(rubric=rubric, answers=answers)
    assert refined == {"rubric": [*rubric, fault]}
  assert reply(rubric=rubric, answers=[RIGHT] * 2) == {"rubric": rubric}


def test_each_vote_on_steps_errs_by_itself():
  """400 votes with a rate of .3: within 4 standard errors."""
  fields = {"question": "4 + 3 =", "steps": {"1": "+ 3 7 ;"}}

  def is_wrong(faults, **more):
    return planted_judge._reply_to("", fields | more, faults)["wrong"] == [1]

  faults = Faults(false_rejection=0.3)
  share = np.mean([is_wrong(faults, critique=i) for i in range(400)])
  assert abs(share - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 400)
  assert not any(is_wrong(Faults(), critique=i) for i in range(9))
  assert is_wrong(faults) == is_wrong(faults)


def test_a_reference_has_the_most_common_last_word():
  answers = ["ANS 8", "ANS 7", " ", "so 7"]
  assert reply(answers=answers) == {"reference": "ANS 7"}


def test_steps_have_scores_and_the_first_error():
  steps = {"1": "+ 3 8 ;", "2": "ANS 8", "3": "ANS 7"}
  assert reply(steps=steps) == {
    **{"first_error": 1, "wrong": [1, 3], "thoughts": [1, 3]},
    **{"1": 0, "2": 1, "3": 0},
  }
  system = "Score from 0 (worst) to 5 (best) each."
  right = reply(system, thoughts={"1": "+ 3 7 ;"})
  assert (right["first_error"], right["1"]) == (0, 5)


def test_a_step_is_scored_by_every_criterion():
  system = "from -1.5 (worst) to 4.0 (best)"
  fields = {"before": ["+ 3 7 ;"], "criteria": ["a", "b"]}
  assert reply(system, step="ANS 7", **fields) == {"a": 4, "b": 4}
  assert reply(system, step="ANS 8", **fields) == {"a": -1.5, "b": -1.5}


def test_the_criteria_of_a_question_name_the_result():
  criteria = reply()
  assert criteria["criteria"] == ['says "+ 3 7 ;"', 'says "ANS 7"']
  assert not criteria["open"]
  other = reply(question="", reference="+ 1 2 ; ANS 2")["criteria"]
  assert other == ['says "+ 1 2 ;"', 'says "ANS 2"']
  criteria = reply(question="Why?", reference="")
  assert criteria["criteria"][0] == "is right"
  assert criteria["open"]


def test_an_embedding_counts_words_and_has_length_1():
  """Of "a b b", the counts are 1 and 2, and their length is sqrt(5)."""
  first = planted_judge._embedding("a B b")
  assert len(first) == 256
  values = sorted(value for value in first if value)
  np.testing.assert_allclose(values, [5**-0.5, 2 * 5**-0.5])
  np.testing.assert_array_equal(first, planted_judge._embedding("b a b"))
  assert planted_judge._embedding("") == [0.0] * 256


def test_the_command_prints_its_url_and_serves(monkeypatch, capfd):
  made = []

  def serve_forever(server):
    made.append(server)
    raise KeyboardInterrupt

  monkeypatch.setattr(
    planted_judge.http.server.ThreadingHTTPServer,
    "serve_forever",
    serve_forever,
  )
  assert planted_judge.main(["--port", "0", "--words", "18"]) == 0
  (server,) = made
  port = server.server_port
  server.server_close()
  assert server.faults == Faults(words=18)
  assert capfd.readouterr().out == f"http://127.0.0.1:{port}/v1\n"
