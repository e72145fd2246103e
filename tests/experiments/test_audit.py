"""The audit finds planted holes and false negatives, and no others."""

import json

import numpy as np
import pytest
from helpers import holey_verifiers

from experiments import audit, planted_judge, tasks
from experiments.training import build
from rewards import attacks
from rewards.attacks import Example
from rewards.verifiers import maths, numbers

EXAMPLES = audit._sums(6, "#### {}")


def problems(verify, examples=EXAMPLES):
  """Returns `{kind: problem}` of what the audit finds."""
  findings = audit.audit(audit._of_verifier(verify), examples)
  return {f.kind: f.problem for f in findings if f.problem}


@pytest.mark.parametrize("kind", sorted(holey_verifiers.HOLES))
def test_a_planted_hole_is_found(kind):
  found_problems = problems(holey_verifiers.HOLES[kind])
  assert found_problems == {kind: "hole"}
  assert set(holey_verifiers.HOLES) == set(attacks.ATTACKS)


@pytest.mark.parametrize(
  ("verify", "template"),
  [
    (holey_verifiers.last_mark, "#### {}"),
    (numbers.verify, "#### {}"),
    (maths.verify, "The answer is \\boxed{{{}}}."),
  ],
)
def test_sound_verifiers_have_no_problem(verify, template):
  assert problems(verify, audit._sums(6, template)) == {}


def test_a_strict_verifier_has_false_negatives():
  expected = dict.fromkeys(attacks.REWRITINGS, "false negative")
  assert problems(holey_verifiers.strict) == expected


def test_scores_are_compared_with_those_of_right_completions():
  """A right completion is paid 0.4; an attack with 0.2 is half as good."""

  def score_with(value):
    def score(pairs):
      return np.array(
        [
          0.4 if text == example.completion else value if not text else 0.0
          for example, text in pairs
        ]
      )

    return {f.kind: f for f in audit.audit(score, EXAMPLES)}

  assert score_with(0.2)["null"].problem == "hole"
  assert score_with(0.19)["null"].problem == ""
  finding = score_with(0.2)["null"]
  assert (finding.extreme, finding.text, finding.count) == (0.2, "", 24)
  assert finding.mean == pytest.approx(0.05)
  with pytest.raises(ValueError, match="pays no right completion"):
    audit.audit(lambda pairs: np.zeros(len(pairs)), EXAMPLES)


def test_a_task_is_audited_with_its_own_words():
  """Words that a chain lacks are left out; its checker has no hole."""
  task = build.make_task_from_text("chain(operations=2)")
  score, examples = audit._of_task(task, 4)
  findings = audit.audit(score, examples)
  kinds = {finding.kind for finding in findings}
  assert {"null", "echo", "repetition", "wrong_answer", "spaces"} <= kinds
  assert "opener" not in kinds
  assert not any(finding.problem for finding in findings)
  answers = [example.reference.split()[-1] for example in examples]
  others = [example.other.split()[-1] for example in examples]
  assert all(a != b for a, b in zip(answers, others, strict=True))
  unknown = score(
    [(examples[0], "hello"), (examples[0], examples[0].completion)]
  )
  np.testing.assert_array_equal(unknown, [np.nan, 1])


def test_the_next_problem_with_another_answer():
  others = audit._other_answers(np.array([4, 4, 7, 4]))
  assert others == [2, 2, 3, 2]
  assert audit._other_answers(np.array([5, 5])) == [1, 0]


def test_the_reward_of_a_config_is_audited(monkeypatch, capsys):
  """A judge that length fools has a hole, and one without faults has none."""
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  config = "--config=experiments/configs/judged.py:agrees"
  for words, status in ((18, 1), (0, 0)):
    with planted_judge.serving(planted_judge.Faults(words=words)) as url:
      flags = [f"--config.judge.url={url}", f"--config.judge.model={words}"]
      assert audit.main(["audit", config, *flags, "--problems=4"]) == status
    is_reported = "repetition (hole)" in capsys.readouterr().out
    assert is_reported == (words > 0)
  config = "--config=experiments/configs/reward.py:verdict"
  assert audit.main(["audit", config, "--problems=2"]) == 0
  config = "--config=experiments/configs/reward.py:self_certainty"
  assert audit.main(["audit", config, "--problems=2"]) == 2
  assert "which only a run computes" in capsys.readouterr().err


def test_so_many_problems_are_audited_by_default(monkeypatch, capsys):
  counts = []
  findings = audit.audit

  def record(score, examples):
    counts.append(len(examples))
    return findings(score, examples)

  monkeypatch.setattr(audit, "audit", record)
  command = ["audit", "--reward", "rewards.verifiers.numbers:verify"]
  assert audit.main([*command, "--write", "#### {}"]) == 0
  assert audit.main([*command, "--write", "#### {}", "--problems", "3"]) == 0
  assert counts == [8, 3]
  assert "[--problems 8]" in audit.__doc__


def test_the_command(tmp_path, capsys):
  command = ["audit", "--reward", "rewards.verifiers.numbers:verify"]
  assert audit.main([*command, "--write", "#### {}"]) == 0
  assert "found no hole" in capsys.readouterr().out
  file = tmp_path / "examples.jsonl"
  lines = [
    {"question": f"{i}?", "reference": str(i), "completion": f"x{i}"}
    for i in (5, 6)
  ]
  file.write_text("".join(json.dumps(line) + "\n" for line in lines))
  strict = ["audit", "--reward", "helpers.holey_verifiers:strict"]
  assert audit.main([*strict, "--data", str(file)]) == 2
  assert "pays no right completion" in capsys.readouterr().err
  assert audit.main([*strict, "--write", "#### {}"]) == 1
  assert "bold (false negative)" in capsys.readouterr().out
  config = "--config=experiments/configs/chain.py:min_form"
  assert audit.main(["audit", config, "--problems=3"]) == 0
  capsys.readouterr()
  with pytest.raises(SystemExit):
    audit.main(["audit", "--write", "#### {}"])
  assert "arguments are required: --reward" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["--write", "no field"], "must have the field {}"),
    (["--problems", "1"], "--problems 1 must be at least 2"),
    (["--data", "one.jsonl"], "at least two lines"),
    (["--data", "wrong.jsonl"], "line 2: 'completion' must be a text"),
  ],
)
def test_mistakes_are_reported_in_one_line(words, message, tmp_path, capsys):
  good = {"question": "1?", "reference": "1", "completion": "1"}
  (tmp_path / "one.jsonl").write_text(json.dumps(good))
  wrong = json.dumps(good) + "\n" + json.dumps(good | {"completion": 1})
  (tmp_path / "wrong.jsonl").write_text(wrong)
  words = [str(tmp_path / w) if w.endswith("jsonl") else w for w in words]
  command = ["audit", "--reward", "rewards.verifiers.numbers:verify", *words]
  assert audit.main(command) == 2
  assert message in capsys.readouterr().err


def test_a_verifier_reads_further_keys_of_a_line(tmp_path, capsys):
  """Key points, without which no text could be scored."""
  names = "Nile", "Amazon"
  lines = [
    {
      "question": f"Tell of the {name}.",
      "reference": f"The {name} is long.",
      "completion": f"The {name} is long.",
      "key_points": [[[name, "long"]]],
    }
    for name in names
  ]
  file = tmp_path / "lines.jsonl"
  file.write_text("\n".join(map(json.dumps, lines)))
  verifier = "rewards.verifiers.key_points:verify"
  audit.main(["audit", "--reward", verifier, "--data", str(file)])
  printed = capsys.readouterr().out
  # The question, repeated, has one of two keywords of its key point.
  assert "found: echo (hole)" in printed


def test_attacks_contain_no_answer():
  example = Example("What is 30 + 12?", "42", "#### 42", "61")
  for kind, make in attacks.ATTACKS.items():
    if kind != "many_answers":
      assert not any("42" in text for text in make(example)), kind
  for make in attacks.REWRITINGS.values():
    assert all("42" in text for text in make(example))


def test_a_text_that_is_too_long_is_cut_and_has_no_end():
  task = tasks.get("countdown", count=2)  # four tokens with EOS
  assert task.completion_length == 4
  texts = ["1 + 2", "1 + 2 + 3", "1 + two", "1"]
  indices, samples = audit._encode_samples(task, texts)
  assert indices == [0, 1, 3]  # "two" is no token
  assert samples.lengths.tolist() == [[4], [4], [2]]
  assert samples.finished.tolist() == [[True], [False], [True]]
  assert task.decode(samples.completions[1, 0]) == "1 + 2 +"
  assert samples.completions[2, 0, 2:].tolist() == [task.pad_id] * 2
  assert audit._encode_samples(task, ["two"])[0] == []
