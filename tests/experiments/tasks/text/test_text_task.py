"""Text tasks with a tokenizer from a folder: prompts, stops, lengths, steps."""

import dataclasses
import datetime
import hashlib
import json
import os
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest
from helpers import (
  small_chat,
  small_contests,
  small_gsm8k,
  small_math,
  small_run,
)
from helpers.text_completions import ids_of
from tokenizers import processors

from experiments import tasks
from experiments.cli import spec
from experiments.logging import json_files
from experiments.tasks.text import gsm8k, text_options, text_task
from experiments.training import build
from experiments.training_run import loop
from models import hf, tokenizer
from models.config import ModelConfig
from rewards.verifiers import Outcome, maths
from rewards.verifiers.pool import Pool


def question(problems, i):
  """Returns the question of problem i of a batch."""
  return small_gsm8k.row(int(problems.facts["row"][i]))["question"]


def test_a_question_becomes_a_conversation(make, chat):
  task = make(tokenizer=chat)
  problems = task.test(3)
  hf_tokenizer = tokenizer.load(chat)
  for i in range(3):
    request = f"{question(problems, i)}\n{gsm8k.INSTRUCTION}"
    real = problems.prompts[i][problems.prompt_mask[i]]
    prompt = f"<|user|>{request}<|end|><|assistant|>"
    assert hf_tokenizer.decode(real) == prompt
    assert task.decode(problems.prompts[i]) == prompt
    assert problems.prompt_mask[i, -1]
  assert task.vocab_size == len(hf_tokenizer)
  assert "chat=True" in task.name


def test_system_instruction_and_thinking_are_settings(make, chat):
  task = make(tokenizer=chat, system="Count.", instruction="", thinking=False)
  problems = task.test(1)
  assert task.decode(problems.prompts[0]) == (
    f"<|system|>Count.<|end|><|user|>{question(problems, 0)}<|end|>"
    "<|assistant|><quick>"
  )
  text = make(tokenizer=chat, chat=False, system="Count.", instruction="Go.")
  assert text.decode(text.test(1).prompts[0]) == (
    f"Count.\n{question(problems, 0)}\nGo.\n"
  )


@pytest.mark.parametrize(
  "settings",
  [{"chat": 0}, {"chat": 1}, {"chat": None}, {"thinking": 0}, {"thinking": ""}],
)
def test_a_setting_must_have_its_type(make, bare, settings):
  (name,) = settings
  with pytest.raises(ValueError, match=f"{name} = .* must be bool"):
    make(tokenizer=bare, **settings)


def test_prompts_are_the_same_every_day(make, tmp_path):
  """A template that asks for the date gets a fixed one."""
  dated = (
    "{{ strftime_now('%Y-%m-%d') }}{% if strftime_now is defined %}"
    "{% set day = strftime_now('%d %b %Y') %}{{ day }}{% endif %}|"
  )
  small_chat.write(tmp_path, template=dated + small_chat.TEMPLATE)
  task = make(tokenizer=str(tmp_path))
  day = "26 Jul 2024"
  text = task.decode(task.test(1).prompts[0])
  assert text.startswith(f"{day}{day}|<|user|>")
  assert str(datetime.date.today().year) not in text


def test_the_date_leaves_other_templates_as_they_are(make, tmp_path):
  template = "\n  a\n{% if true %}\n b{% endif %}\n"
  hf_tokenizer = small_chat.write(tmp_path, template=template)
  turns = [{"role": "user", "content": "a"}]
  (ids,) = tokenizer.chat_prompts(hf_tokenizer, [turns])
  assert hf_tokenizer.decode(ids) == hf_tokenizer.apply_chat_template(
    turns, tokenize=False, add_generation_prompt=True
  )


@pytest.mark.parametrize("special_tokens", [(), ("<image>",)])
def test_a_special_token_without_a_use_needs_no_embedding(
  tmp_path, special_tokens
):
  hf_tokenizer = small_chat.write(tmp_path)
  rows = len(hf_tokenizer)
  names = ["<image>", "<spare>"]
  hf_tokenizer.add_special_tokens({"additional_special_tokens": names})
  hf_tokenizer.save_pretrained(tmp_path)
  assert len(hf_tokenizer) == rows + 2
  row = {"question": "<image> 7?", "answer": "#### 7"}
  (tmp_path / "gsm8k_test.jsonl").write_text(json.dumps(row))
  task = tasks.get(
    "gsm8k",
    folder=str(tmp_path),
    cache=str(tmp_path / "cache"),
    tokenizer=str(tmp_path),
    special_tokens=special_tokens,
  )
  config = ModelConfig(
    vocab_size=rows,
    width=8,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=4,
    mlp_width=8,
  )
  if special_tokens:
    assert task.vocab_size == rows + 1
    with pytest.raises(ValueError, match=f"embedding has {rows} rows"):
      hf.check_tokenizer(config, task.vocab_size, tmp_path)
  else:
    hf.check_tokenizer(config, task.vocab_size, tmp_path)


@pytest.mark.parametrize("name", ["pad_token", "bos_token", "unk_token"])
def test_a_special_token_with_a_use_needs_an_embedding(tmp_path, name):
  hf_tokenizer = small_chat.write(tmp_path, template="")
  rows = tokenizer.required_vocab_size(hf_tokenizer)
  assert rows < len(hf_tokenizer)  # without a template, no turn tokens are used
  hf_tokenizer.add_special_tokens({name: "<last>"})
  last = hf_tokenizer.convert_tokens_to_ids("<last>")
  assert tokenizer.required_vocab_size(hf_tokenizer) == last + 1
  setattr(hf_tokenizer, name, None)
  assert tokenizer.required_vocab_size(hf_tokenizer) == rows
  assert tokenizer.required_vocab_size(hf_tokenizer, [last]) == last + 1
  hf_tokenizer.chat_template = "a <last> b"
  assert tokenizer.required_vocab_size(hf_tokenizer) == last + 1


def test_a_prompt_for_the_trained_tokenizer_is_the_question_alone(make):
  task = make(vocab_size=300)
  problems = task.test(1)
  assert task.decode(problems.prompts[0]) == f"{question(problems, 0)}\n"


def test_an_error_of_the_chat_template_is_one_line(make, tmp_path):
  refusing = "{{ raise_exception('no system turns') }}"
  small_chat.write(tmp_path, template=refusing)
  with pytest.raises(ValueError, match="refuses the conversation: no system"):
    make(tokenizer=str(tmp_path))


def test_a_chat_without_a_template_is_refused(make, bare):
  with pytest.raises(ValueError, match=r"chat=True, .* no chat template"):
    make(tokenizer=bare, chat=True)
  assert "chat" not in make(tokenizer=bare).name
  with pytest.raises(ValueError, match="unknown chat 'yes'"):
    make(tokenizer=bare, chat="yes")


@pytest.mark.parametrize("template", ["<bos> $A", "<bos> $A <eos>", "$A <eos>"])
def test_text_prompts_begin_with_bos_where_the_tokenizer_adds_it(
  make, tmp_path, template
):
  hf_tokenizer = small_chat.write(tmp_path, template="")
  hf_tokenizer.add_special_tokens({"bos_token": "<bos>"})
  hf_tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
    single=template,
    special_tokens=[("<bos>", hf_tokenizer.bos_token_id), ("<eos>", 1)],
  )
  hf_tokenizer.save_pretrained(tmp_path)
  task = make(tokenizer=str(tmp_path), instruction="")
  problems = task.test(1)
  bos = "<bos>" if "<bos>" in template else ""
  text = task.decode(problems.prompts[0])
  assert text == f"{bos}{question(problems, 0)}\n"


def test_every_stop_ends_a_completion(make, chat):
  hf_tokenizer = tokenizer.load(chat)
  task = make(tokenizer=chat)
  end = hf_tokenizer.convert_tokens_to_ids(small_chat.TURN)
  # A demonstration ends as the template ends a turn.
  assert (task.eos_id, task.eos_ids) == (end, (end, hf_tokenizer.eos_token_id))
  completions, lengths = task.demonstrate(None, task.test(2))
  assert completions[0, lengths[0] - 1] == end
  text = make(tokenizer=chat, chat=False)
  assert text.eos_ids == (hf_tokenizer.eos_token_id, end)
  problems = task.test(2)
  answers = [small_gsm8k.row(int(r))["answer"] for r in problems.facts["row"]]
  for stop in (small_chat.TURN, "<eos>"):
    judged = task.score(problems, *ids_of(chat, answers, stop))
    np.testing.assert_array_equal(judged.correct, 1)


def test_the_end_of_the_assistants_turn_is_a_stop(make, tmp_path):
  """The generation config of a base model names the EOS alone, if anything."""
  hf_tokenizer = small_chat.write(tmp_path)
  end = hf_tokenizer.convert_tokens_to_ids(small_chat.TURN)
  task = make(tokenizer=str(tmp_path))
  assert task.eos_ids == (end, hf_tokenizer.eos_token_id)
  text = make(tokenizer=str(tmp_path), chat=False)
  assert text.eos_ids == (hf_tokenizer.eos_token_id,)
  # The template writes no special token after the reply: EOS alone ends it.
  open_end = small_chat.TEMPLATE.replace(small_chat.TURN, " over.")
  small_chat.write(tmp_path, template=open_end)
  assert make(tokenizer=str(tmp_path)).eos_ids == (hf_tokenizer.eos_token_id,)


@pytest.mark.parametrize(
  ("stops", "expected"),
  [(None, (1,)), (5, (5,)), ([7, 1, 7], (7, 1)), ([], (1,))],
)
def test_stops_are_those_of_the_generation_config(tmp_path, stops, expected):
  hf_tokenizer = small_chat.write(tmp_path, stops=stops)
  assert tokenizer.stop_ids(hf_tokenizer, tmp_path) == expected


def test_an_ordinary_token_that_ends_a_completion_is_not_in_its_text(
  make, tmp_path
):
  hf_tokenizer = small_chat.write(tmp_path, template="")
  stop = hf_tokenizer.encode("y")[0]
  small_chat.write(tmp_path, template="", stops=stop)
  task = make(tokenizer=str(tmp_path))
  problems = task.test(1)
  answer = small_gsm8k.row(int(problems.facts["row"][0]))["answer"]
  judged = task.score(problems, *ids_of(tmp_path, [answer], "y"))
  np.testing.assert_array_equal(judged.correct, 1)


def test_without_any_stop_a_tokenizer_is_refused(make, tmp_path):
  hf_tokenizer = small_chat.write(tmp_path, template="")
  hf_tokenizer.eos_token = None
  hf_tokenizer.save_pretrained(tmp_path)
  with pytest.raises(ValueError, match="has no EOS"):
    make(tokenizer=str(tmp_path))
  (tmp_path / "empty").mkdir()
  with pytest.raises(ValueError, match="no readable tokenizer in"):
    make(tokenizer=str(tmp_path / "empty"))


def test_without_a_pad_token_eos_pads_and_nothing_else_changes(
  make, bare, tmp_path
):
  hf_tokenizer = tokenizer.load(bare)
  hf_tokenizer.pad_token = None
  hf_tokenizer.save_pretrained(tmp_path)
  padded, task = make(tokenizer=bare), make(tokenizer=str(tmp_path))
  assert (padded.pad_id, task.pad_id) == (0, 1)
  one, other = padded.test(4), task.test(4)
  np.testing.assert_array_equal(one.prompt_mask, other.prompt_mask)
  np.testing.assert_array_equal(
    one.prompts[one.prompt_mask], other.prompts[other.prompt_mask]
  )
  judged = task.score(
    other, *(x[:, None] for x in task.gold(other)), np.ones((4, 1), bool)
  )
  np.testing.assert_array_equal(judged.correct, 1)
  prompt = f"{question(other, 0)}\n{gsm8k.INSTRUCTION}\n"
  assert task.decode(other.prompts[0]) == prompt


def test_ids_beyond_the_vocabulary_are_ignored(make, bare):
  task = make(tokenizer=bare)
  problems = task.test(2)
  completions, lengths = task.gold(problems)
  wider = np.insert(completions, 0, task.vocab_size + 7, axis=1)
  judged = task.score(
    problems, wider[:, None], lengths[:, None] + 1, np.ones((2, 1), bool)
  )
  np.testing.assert_array_equal(judged.correct, 1)


def test_a_cut_prompt_keeps_its_bos(make, tmp_path):
  hf_tokenizer = small_chat.write(
    tmp_path, template="<bos>" + small_chat.TEMPLATE
  )
  hf_tokenizer.add_special_tokens({"bos_token": "<bos>"})
  hf_tokenizer.save_pretrained(tmp_path)
  settings = {"tokenizer": str(tmp_path), "too_long": "cut"}
  uncut = make(prompt_length=300, **settings).test(1)
  cut = make(prompt_length=9, **settings).test(1)
  (real,) = uncut.prompts[uncut.prompt_mask][None]
  assert real[0] == hf_tokenizer.bos_token_id
  np.testing.assert_array_equal(cut.prompts[0, 0], hf_tokenizer.bos_token_id)
  np.testing.assert_array_equal(cut.prompts[0, 1:], real[-8:])
  alone = make(prompt_length=1, **settings).test(1)
  assert alone.prompts.tolist() == [[hf_tokenizer.bos_token_id]]


def test_a_test_problem_has_one_id_with_and_without_train(
  make, bare, data, tmp_path
):
  name = "gsm8k_test.jsonl"
  (tmp_path / name).write_text((data / name).read_text())
  both = make(tokenizer=bare).test(small_gsm8k.TEST)
  alone = make(tokenizer=bare, folder=str(tmp_path))
  alone = alone.test(small_gsm8k.TEST)
  np.testing.assert_array_equal(both.ids, alone.ids)
  np.testing.assert_array_equal(both.prompts, alone.prompts)


def test_math_is_judged_by_its_box(make, bare):
  task = make("math", tokenizer=bare)
  problems = task.test(3)
  rows = [small_math.row(int(r)) for r in problems.facts["row"]]
  right = [row["solution"] for row in rows]
  same = [
    rf"\boxed{{ {row['answer'].replace('frac', 'dfrac')} }}" for row in rows
  ]
  wrong = [rf"\boxed{{{row['answer']}+1}}" for row in rows]
  no_box = [f"{row['answer']}\nis what I think" for row in rows]
  for texts, verdict in ((right, 1), (same, 1), (wrong, 0), (no_box, 0)):
    judged = task.score(problems, *ids_of(bare, texts, "<eos>"))
    assert judged.correct.tolist() == [[verdict]] * 3
  assert "\\boxed{}" in task.decode(problems.prompts[0])


def test_a_test_file_alone_can_be_evaluated_and_not_trained(make, bare):
  task = make("math", dataset="math500", tokenizer=bare)
  assert len(task.test(small_math.TEST).ids) == small_math.TEST
  with pytest.raises(ValueError, match="math500 has no train problems"):
    task.train(jax.random.key(0), 0, 1)
  with pytest.raises(ValueError, match="no train problems to train a token"):
    make("math", dataset="math500")
  with pytest.raises(ValueError, match=r"no 'math50_test.jsonl' .* 'math500_"):
    make("math", dataset="math50", tokenizer=bare)


@pytest.mark.parametrize(
  ("row", "demonstration", "answer"),
  [
    ({"problem": "?", "solution": r"a \boxed{3}"}, r"a \boxed{3}", "3"),
    ({"problem": "?", "answer": 27.0}, r"\boxed{27.0}", "27"),
    (
      {"problem": "?", "solution": "so 5", "answer": "5", "level": 2},
      "so 5\n\\boxed{5}",
      "5",
    ),
  ],
)
def test_a_line_without_a_solution_or_an_answer_is_completed(
  tmp_path, bare, row, demonstration, answer
):
  (tmp_path / "aime_test.jsonl").write_text(json.dumps(row))
  task = tasks.get(
    "math",
    folder=str(tmp_path),
    cache=str(tmp_path / "cache"),
    dataset="aime",
    tokenizer=bare,
    workers=1,
  )
  problems = task.test(1)
  completions, lengths = task.demonstrate(None, problems)
  text = task.decode(completions[0, : lengths[0]])
  assert text == f"{demonstration}<eos>"
  written = [rf"\boxed{{{answer}}}"]
  judged = task.score(problems, *ids_of(bare, written, "<eos>"))
  assert judged.correct.tolist() == [[1]]


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ({"question": "?", "answer": "1"}, "line 2 is not a JSON object with 'pro"),
    ({"problem": "?"}, "line 2 has no answer"),
    ({"problem": "?", "solution": "so 5"}, "line 2 has no answer"),
    ({"problem": ["?"], "answer": "1"}, "line 2 is not a JSON object"),
  ],
)
def test_a_line_of_another_form_is_named(tmp_path, bare, line, message):
  rows = [small_math.row(0), line]
  text = "\n".join(map(json.dumps, rows))
  (tmp_path / "math_test.jsonl").write_text(text)
  with pytest.raises(ValueError, match=rf"math_test\.jsonl {message}"):
    tasks.get("math", folder=str(tmp_path), cache=str(tmp_path), tokenizer=bare)


@pytest.mark.parametrize(
  ("name", "contest", "right", "wrong"),
  [
    ("aime", small_contests.AIME, ["021", "21", "21.0"], ["210", "0.21"]),
    ("amc", small_contests.AMC, ["21.0", "21", "$21$"], ["21.5", "2.1"]),
  ],
)
def test_answers_of_contests_are_integers(
  tmp_path, bare, name, contest, right, wrong
):
  contest.write(tmp_path)
  task = tasks.get(
    name,
    folder=str(tmp_path),
    cache=str(tmp_path / "cache"),
    tokenizer=bare,
    prompt_length=200,
    workers=1,
  )
  problems = task.test(small_contests.TEST)
  (position,) = np.flatnonzero(problems.facts["row"] == 0)  # 3 times 7
  problem = jax.tree.map(lambda leaf: leaf[position][None], problems)
  assert "Find $3 \\cdot 7$." in task.decode(problem.prompts[0])
  for texts, verdict in ((right, 1), (wrong, 0)):
    boxed = [f"\\boxed{{{text}}}" for text in texts]
    completions, lengths, finished = ids_of(bare, boxed, "<eos>")
    judged = task.score(problem, completions[None, :, 0], lengths.T, finished.T)
    assert judged.correct.tolist() == [[verdict] * len(texts)]
  with pytest.raises(ValueError, match=f"{contest.name} has no train problems"):
    task.train(jax.random.key(0), 0, 1)


def test_a_fingerprint_is_a_hash_of_the_train_problems():
  examples = [text_options.Example(*"abc"), text_options.Example(*"def")]
  text = repr(([1], [2, 3], "c"))
  digest = hashlib.sha256(text.encode()).hexdigest()[:16]
  args = ([[1], [4]], [[2, 3], [5]], examples)
  assert text_task._fingerprint(1, *args) == digest
  assert text_task._fingerprint(2, *args) != digest


def test_tasks_are_compared_by_identity(make, bare):
  """They have arrays, which have no hash."""
  task = make(tokenizer=bare).score.__self__
  assert hash(task) == hash(task)
  assert task != dataclasses.replace(task)


def test_padding_alone_has_no_text(make, bare):
  task = make(tokenizer=bare)
  assert task.decode([]) == task.decode([task.pad_id] * 3) == ""


def test_thoughts_in_special_tokens_are_part_of_the_text(tmp_path):
  """A verifier sees the tags, and with them where a thought ends."""
  hf_tokenizer = small_chat.write(tmp_path, template="")
  tags = ["<think>", "</think>", "<tool_call>"]
  hf_tokenizer.add_special_tokens({"additional_special_tokens": tags})
  hf_tokenizer.save_pretrained(tmp_path)
  text = r"<think>maybe \boxed{4}?</think><tool_call>I do not know."
  ids = hf_tokenizer(f"{text}<eos>").input_ids
  assert set(hf_tokenizer.convert_tokens_to_ids(tags)) < set(ids)
  completions = []

  def verify(items):
    completions.extend(item.text for item in items)
    return maths.verify(items)

  task = text_task.build(
    "one",
    {"test": [text_options.Example("2 + 2?", "4", "4")]},
    text_options.TextOptions(
      tokenizer=str(tmp_path), prompt_length=20, completion_length=60
    ),
    verify,
  )
  ended = np.ones((1, 1), bool)
  judged = task.score(
    task.test(1), np.array([[ids]]), np.array([[len(ids)]]), ended
  )
  assert completions == [text]
  assert judged.correct.tolist() == [[0]]


@pytest.mark.parametrize("tags", [(), ("<quick>", "<eos>")])
def test_a_dataset_trains_special_tokens_only_if_they_are_named(tmp_path, tags):
  """A question or a solution with `<|end|>` does not end there."""
  hf_tokenizer = small_chat.write(tmp_path)
  task = text_task.build(
    "one",
    {
      "train": [
        text_options.Example("2?<eos>", f"<quick>4{small_chat.TURN}", "4")
      ]
    },
    text_options.TextOptions(
      tokenizer=str(tmp_path),
      prompt_length=40,
      completion_length=60,
      special_tokens=tags,
    ),
    lambda items: [Outcome(1.0, 1, "4", 7) for _ in items],
  )
  special = {*hf_tokenizer.all_special_ids}
  problems = task.train(jax.random.key(0), 0, 1)
  prompt = problems.prompts[0][problems.prompt_mask[0]].tolist()
  (completion,), (length,) = task.demonstrate(None, problems)
  names = hf_tokenizer.convert_ids_to_tokens(
    [i for i in (*prompt, *completion[:length]) if i in special]
  )
  turns = ["<|user|>", small_chat.TURN, "<|assistant|>"]
  if tags:
    expected = [turns[0], "<eos>", *turns[1:], "<quick>", small_chat.TURN]
  else:
    expected = [*turns, small_chat.TURN]
  assert names == expected
  assert small_chat.TURN in task.decode(completion[: length - 1])
  assert task.prompt_ids("2?<eos>") == prompt


def test_a_special_token_that_does_not_exist_is_named(make, chat):
  with pytest.raises(ValueError, match=r"special token '<quik>'.*'<quick>'"):
    make(tokenizer=chat, special_tokens=("<quik>",))


def test_building_an_experiment_starts_no_worker(data, tmp_path):
  """Many configs are built only to be validated."""
  with mock.patch("subprocess.Popen", side_effect=AssertionError("started")):
    config = small_run.config(
      task="math(vocab_size=300, prompt_length=64, completion_length=80)",
      data__folder=str(data),
      data__cache=str(tmp_path),
      evaluation__problems=small_math.TEST,
    )
    experiment = small_run.on_one_device(build.build(config))
  assert not experiment.task.jittable


@pytest.mark.long
def test_a_policy_trains_on_math_judged_by_workers(data, tmp_path, monkeypatch):
  """The policy is untrained, and half of its tokens end a completion."""
  hf_tokenizer = small_chat.write(tmp_path / "tokenizer", template="")
  stops = list(range(0, len(hf_tokenizer), 2))
  small_chat.write(tmp_path / "tokenizer", template="", stops=stops)
  pools = []

  def watched(*args, **kwargs):
    pools.append(Pool(*args, **kwargs))
    return pools[-1]

  monkeypatch.setattr("experiments.tasks.text.math.Pool", watched)
  task = (
    f"math(tokenizer={str(tmp_path / 'tokenizer')!r}, workers=1, "
    "prompt_length=64, completion_length=80, instruction='')"
  )
  config = small_run.config(
    task=task,
    data__folder=str(data),
    data__cache=str(tmp_path / "cache"),
    rollout__max_tokens=4,
    rollout__samples=2,
    evaluation__problems=4,
    steps=2,
  )
  experiment = small_run.on_one_device(build.build(config))
  assert pools[0].statistics["items"] == 0
  loop.run(experiment, tmp_path / "run")
  lines = json_files.read(tmp_path / "run" / "metrics.jsonl")
  earned = [line["reward/mean"] for line in lines if "reward/mean" in line]
  assert earned == [0, 0]  # finite: nothing is unscored
  verified = sum(pool.statistics["items"] for pool in pools)
  assert 10 < verified < 2 * 8 * 2 + 2 * 4 * 2
  assert not any(pool.statistics["unscored"] for pool in pools)


@pytest.mark.parametrize(
  ("name", "problems"),
  [("aime", 30), ("amc", 40), ("math(dataset='math500')", 500)],
)
def test_gold_is_right_on_the_published_files(bare, tmp_path, name, problems):
  """Gold scores 1 on each problem, and an empty box on none."""
  folder = os.environ.get("EXTREMUM_DATA", "")
  if not (Path(folder) / "math500_test.jsonl").is_file():
    pytest.skip("EXTREMUM_DATA names no folder with these files")
  task = tasks.get(
    spec.parse(name)[0],
    **spec.parse(name)[1],
    folder=folder,
    cache=str(tmp_path),
    tokenizer=bare,
    prompt_length=4000,
  )
  all_problems = task.test(problems)
  finished = np.ones((problems, 1), bool)
  completions, lengths = task.gold(all_problems)
  judged = task.score(
    all_problems, completions[:, None], lengths[:, None], finished
  )
  assert judged.correct.sum() == problems
  empty = ids_of(bare, ["\\boxed{}"], "<eos>")
  nothing = [np.repeat(leaf, problems, 0) for leaf in empty]
  assert task.score(all_problems, *nothing).scores.sum() == 0
