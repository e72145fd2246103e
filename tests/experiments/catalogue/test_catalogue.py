"""The catalogue lists what the code has, as the code describes it."""

import pytest

import rewards
from experiments import configs, tasks
from experiments.catalogue import __main__ as catalogue
from experiments.catalogue import papers
from models import presets
from rl import learners, methods, scoring
from rl.losses import terms
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.parameter_sets import ema, frozen, learned
from rl.sampling import samplers
from rl.transforms import (
  broadcast,
  broadcast_steps,
  chain,
  scores,
  step_scores,
  transform,
)

LOSS = policy_gradient(ppo_clip(0.2, 0.2))
PLAIN = Method(LOSS, scores())


def reads(*needs):
  """A method whose advantage reads the given needs."""

  @transform(takes="sample", needs=frozenset(needs))
  def look(signal, rollout):
    return signal

  return Method(LOSS, chain(scores(), look()))


def needs(policy, **others):
  return catalogue.needs({learners.POLICY: policy, **others})


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_its_paper_and_its_line(name):
  row = catalogue.method(name)
  assert row["method"] == name
  assert row["paper"]
  assert len(row["in a line"]) > 10
  assert row["family"] == methods.family(name)
  assert "\n" not in row["paper"] + row["in a line"]


@pytest.mark.parametrize("name", catalogue.reward_names())
def test_every_reward_has_its_line_and_where_it_runs(name):
  row = catalogue.reward(name)
  assert row["reward"] == name
  assert row["runs"] in ("host", "jittable")
  assert len(row["in a line"]) > 10
  assert row["reads"]
  assert "\n" not in row["paper"] + row["in a line"]


def test_every_reward_of_a_config_is_in_the_catalogue():
  rows = [catalogue.reward(name) for name in catalogue.reward_names()]
  bound = {key for row in rows for key in row["in a config"].split(", ")}
  assert bound - {""} == set(rewards.names())
  assert (
    catalogue.reward("majority.majority_scores")["in a config"] == "majority"
  )
  assert catalogue.reward("brier.brier_scores")["in a config"] == "brier"
  assert catalogue.reward("maths.verify")["runs"] == "host"


@pytest.mark.parametrize("name", tasks.names())
def test_every_task_has_its_line(name):
  row = catalogue.task(name)
  assert len(row["in a line"]) > 10
  assert row["scored"] in ("jittable", "on the host")


def test_what_every_method_reads_is_not_listed():
  assert needs(PLAIN) == ()
  assert needs(Method(LOSS, chain(scores(), broadcast()))) == ()
  usual = [scoring.Need(s, scoring.log_probs) for s in ("old", "policy")]
  assert needs(reads(*usual)) == ()


def test_steps_of_reasoning_are_a_need():
  credit = chain(step_scores(), broadcast_steps())
  assert needs(Method(LOSS, credit)) == ("step scores",)
  assert needs(Method(LOSS, credit + credit)) == ("step scores",)
  assert catalogue.method("min_form")["needs"] == "step scores"


def test_parameter_sets_are_listed_once_and_trained_ones_as_learners():
  sets = (("ref", frozen()), ("ema", ema(0.9)))
  one = Method(LOSS, scores(), parameter_sets=sets[:1])
  assert needs(one) == ("parameter set ref",)
  two = Method(LOSS, scores(), parameter_sets=sets)
  assert needs(two) == ("parameter sets ref, ema",)
  trained = (*sets[:1], ("prm", learned()))
  policy = Method(LOSS, scores(), parameter_sets=trained)
  model = Method(terms.nll(), parameter_sets=sets[:1])
  assert needs(policy, prm=model) == (
    "learners policy, prm",
    "parameter set ref",
  )


def test_a_pass_is_named_by_its_parameters_and_what_it_computes():
  assert needs(reads(scoring.Need("old", scoring.entropy))) == (
    "pass old/entropy",
  )
  assert needs(reads(scoring.Need("old", scoring.values))) == ("value head",)
  prompt = scoring.Need("old", scoring.log_probs, view="prompt")
  assert needs(reads(prompt)) == ("pass old@prompt/log_probs",)


def test_what_no_pass_computes_is_named_by_its_provider():
  judged = scoring.provided("task", "preferences")
  matches = scoring.host(
    "matches", lambda rollout: rollout.scores, level="sample"
  )
  assert needs(reads(judged, matches)) == ("host: matches", "task: preferences")
  assert needs(reads(scoring.provided("prepared", "advantage"))) == ()


def test_the_sampler_and_the_policy_that_samples_are_listed():
  greedy = Method(LOSS, scores(), sampler=samplers.greedy())
  assert needs(greedy) == ("sampler greedy()",)
  sets = (("generator", ema(0.9)),)
  lagging = Method(LOSS, scores(), parameter_sets=sets, behavior="generator")
  assert needs(lagging) == (
    "parameter set generator",
    "samples by generator",
  )


def test_a_row_of_a_markdown_table_is_one_line():
  row = {"method": "a", "paper": "P | Q 2020", "in a line": "Says |A|"}
  head, rule, line = catalogue.markdown([row]).splitlines()
  assert head == "| method | paper | in a line |"
  assert line == r"| `a` | P \| Q 2020 | Says \|A\| |"
  assert head.count("|") == rule.count("|") == 4


def test_a_preset_has_its_size_and_its_shape():
  assert list(catalogue.preset("llama2-7b").values()) == [
    "llama2-7b",
    "llama",
    "6,738,415,616",
    "",
    "32 layers of 4096, 32/32 heads of 128, MLP 11008",
    "4096",
    "12.55",  # two bytes each, over 2^30
  ]
  mixture = catalogue.preset("mixtral-8x7b")
  # "each token has access to 47B parameters, but only uses 13B active
  # parameters", Jiang et al. 2024.
  sizes = [mixture[name] for name in ("parameters", "active per token")]
  billions = [round(int(size.replace(",", "")) / 1e9) for size in sizes]
  assert billions == [47, 13]
  assert "2 of 8 experts of 14336" in mixture["shape"]


def test_the_command_prints_all_of_them(capsys):
  assert catalogue.main(["methods", "--markdown"]) == 0
  rows = capsys.readouterr().out.splitlines()[2:]
  assert [row.split("`")[1] for row in rows] == methods.names()
  assert catalogue.main(["methods"]) == 0
  shown = capsys.readouterr().out
  assert "Shao et al. 2024" in shown


@pytest.fixture
def stale_pages(tmp_path, monkeypatch):
  """A folder with pages whose tables and numbers are out of date."""
  folders = {"methods": tmp_path / "rl" / "methods"}
  folders["rewards"] = tmp_path / "rewards"
  for kind, folder in folders.items():
    folder.mkdir(parents=True)
    text = f"before\n<!-- {kind} -->\n| old |\n<!-- /{kind} -->\nafter\n"
    (folder / "README.md").write_text(text)
  text = "Has 1 methods, 2 rewards, 3 tasks; 4 families.\nOf 5 methods, 6 win."
  (tmp_path / "README.md").write_text(text)
  monkeypatch.setattr(catalogue, "_ROOT", tmp_path)
  return tmp_path


def test_write_replaces_tables_and_numbers_alone(stale_pages, capsys):
  assert catalogue.main(["rewards", "--markdown"]) == 0
  table = capsys.readouterr().out
  assert catalogue.main(["--write"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert sorted(lines) == [
    "wrote README.md",
    "wrote rewards/README.md",
    "wrote rl/methods/README.md",
  ]
  assert (stale_pages / "rewards" / "README.md").read_text() == (
    f"before\n<!-- rewards -->\n{table}<!-- /rewards -->\nafter\n"
  )
  text = (stale_pages / "README.md").read_text()
  assert text == (
    f"Has {len(methods.names())} methods, {len(rewards.names())} rewards, "
    f"{len(tasks.names())} tasks; 14 families.\nOf 5 methods, 6 win."
  )
  assert catalogue.main(["--write"]) == 0
  out = capsys.readouterr().out
  assert out.count("unchanged ") == len(out.splitlines()) == 3


@pytest.mark.parametrize("argv", [[], ["methods", "--write"]])
def test_a_kind_or_write_is_named_not_both(argv, capsys):
  with pytest.raises(SystemExit) as error:
    catalogue.main(argv)
  assert error.value.code == 2
  assert "name a KIND to list it, or --write alone" in capsys.readouterr().err


def test_brackets_of_a_cell_are_no_markup(capsys, monkeypatch):
  row = {"name": "one", "in a line": "the [bold]y of [red]"}
  monkeypatch.setitem(catalogue.KINDS, "tasks", lambda: [row])
  assert catalogue.main(["tasks"]) == 0
  assert "the [bold]y of [red]" in capsys.readouterr().out


def test_the_command_prints_all_presets(capsys):
  assert catalogue.main(["presets", "--markdown"]) == 0
  rows = capsys.readouterr().out.splitlines()[2:]
  assert [row.split("`")[1] for row in rows] == presets.names()
  assert catalogue.main(["presets"]) == 0
  shown = capsys.readouterr().out
  assert "596,049,920" in shown  # qwen3-0.6b, on one line


def test_the_command_prints_a_line_for_each_config(capsys):
  assert catalogue.main(["configs"]) == 0
  lines = capsys.readouterr().out.splitlines()
  phrase = catalogue.method("grpo")["in a line"]
  assert f"experiments/configs/method.py:grpo | {phrase}" in lines
  assert [line.partition(" | ")[0] for line in lines] == list(configs.listing())


def test_an_unknown_kind_is_refused_with_those_that_exist(capsys):
  with pytest.raises(SystemExit):
    catalogue.main(["method"])
  assert "methods" in capsys.readouterr().err


# Papers.


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("Shao et al. 2024, DeepSeekMath", ["Shao et al. 2024, DeepSeekMath"]),
    (
      "Kool et al. 2019; Ahmadian et al. 2024, Back to Basics",
      ["Kool et al. 2019", "Ahmadian et al. 2024, Back to Basics"],
    ),
    ("The Best of N Worlds; the exact form is ours", ["The Best of N Worlds"]),
    ("this codebase; graded in the manner of a game", []),
    (
      "A paper (its a; its b), 2025. Deviation: C",
      ["A paper (its a; its b), 2025"],
    ),
  ],
)
def test_a_source_line_is_split_into_papers(text, expected):
  assert papers.split(text) == expected


def test_a_source_line_may_run_over_several_lines():
  text = papers.source_text("""Says something.

  Source: Hu et al. 2025, BroRL: Scaling Reinforcement Learning via Broadened
  Exploration.

  Raises:
    ValueError: never.
  """)
  assert text == (
    "Hu et al. 2025, BroRL: Scaling Reinforcement Learning via Broadened "
    "Exploration"
  )


@pytest.fixture(scope="module")
def paper_rows():
  return papers.rows()


@pytest.mark.parametrize(
  ("kind", "name", "paper", "command"),
  [
    ("method", "grpo", "Shao et al. 2024", "--config {}/method.py:grpo "),
    ("reward", "majority", "Shafayat et al. 2025", "{}/reward.py:majority "),
    ("reward", "coins", "Spurious Rewards", "no command"),
    ("reward", "model_steps", "ReARTeR", "{}/fitted_reward.py:look_ahead "),
    ("claim", "coverage", "Yue et al. 2025", "studies.claims coverage"),
    ("reward", "ensemble", "Coste", "{}/fitted_reward.py:two_less_variance "),
    ("reward", "ensemble", "Eisenstein", "{}/fitted_reward.py:two_worst "),
    ("question", "aspect", "VerIF", "{}/judged.py:hybrid "),
    ("question", "aspect", "(DRM", "{}/judged.py:aspects "),
    ("question", "p_yes", "RLBFF", "{}/judged.py:principle "),
    (
      "method",
      "dpo",
      "Tulu 3",
      'method="dpo(beta=5.0, length_normalized=True)',
    ),
    ("method", "dpo", "Rafailov", "{}/method.py:dpo --workdir runs/dpo"),
    ("method", "ppo_process", "Math-Sh", "{}/fitted_reward.py:process_ppo "),
    ("step loss", "bradley_terry", "Posterior-GRPO", "thought_pairs.jsonl"),
    (
      "label source",
      "mixture",
      "Fin-PRM",
      " --judge URL --judge_model planted",
    ),
    ("task", "gsm8k", "Cobbe et al. 2021", "--policy FOLDER --task gsm8k"),
    ("task", "countdown", "Gandhi et al. 2024", "{}/countdown.py:max_at_k "),
    ("module", "models.lora", "Hu et al. 2021, LoRA", "no command"),
  ],
)
def test_a_paper_is_listed_with_its_command(
  paper_rows, kind, name, paper, command
):
  (row,) = (
    row for row in paper_rows if row["name"] == name and paper in row["paper"]
  )
  assert row["kind"] == kind
  assert command.format("experiments/configs") in row["command"]


def test_every_method_with_a_paper_is_listed(paper_rows):
  listed = {row["name"] for row in paper_rows if row["kind"] == "method"}
  # A source that is no paper, such as a page of this repository, has no row.
  with_papers = {
    name
    for name in methods.names()
    if papers.split(catalogue.method(name)["paper"])
  }
  assert listed == with_papers
  assert len(with_papers) > 0.9 * len(methods.names())


def test_the_stages_of_a_paper_are_its_configs(paper_rows):
  all_rows = [row for row in paper_rows if row["kind"] == "config"]
  rows = [row for row in all_rows if row["name"].startswith("tulu3:")]
  names = [row["name"] for row in rows]
  assert names == ["tulu3:sft", "tulu3:dpo", "tulu3:rlvr"]
  # The paper of one config of a file is not that of the others.
  others = {row["name"]: row["paper"] for row in all_rows if row not in rows}
  assert others.keys() == {
    "fitted_reward:mixed",
    "programs:prlcoder",
    "small_judge:fit",
    "small_judge:paid",
    "small_judge:thoughts",
  }
  assert "Posterior-GRPO" in others["small_judge:thoughts"]
  assert {row["paper"] for row in rows} == {
    row["paper"] for row in paper_rows if row["name"] == "tulu3"
  }
  command = "experiments/configs/tulu3.py:sft --workdir runs/tulu3_sft"
  assert rows[0]["command"].endswith(command)


def test_a_stand_in_is_told_in_place_of_a_command(paper_rows):
  for stand_in in papers._stand_ins():
    assert stand_in["reason"].endswith(".")
    commands = {
      row["command"]
      for row in paper_rows
      if (row["kind"], row["name"]) == (stand_in["kind"], stand_in["name"])
      and stand_in["paper"] in row["paper"]
    }
    assert commands == {f"no command: {stand_in['reason']}"}, stand_in


def test_every_config_in_a_command_exists(paper_rows):
  texts = {
    word
    for row in paper_rows
    for word in row["command"].split()
    if word.startswith("experiments/configs/")
  }
  assert texts
  assert texts <= set(configs.listing())


def test_grep_filters_without_regard_to_case(capsys):
  assert catalogue.main(["papers", "--grep", "pass@K tRaining"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert len(lines) >= 5
  assert all("pass@k training" in line.lower() for line in lines)
  assert catalogue.main(["papers", "--grep", "no such paper"]) == 2
  assert "'no such paper'; leave out --grep" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("kind", "package"),
  [("methods", methods), ("rewards", rewards), ("tasks", tasks)],
)
def test_an_unfinished_file_is_named(
  kind, package, tmp_path, monkeypatch, capsys
):
  """Also where another file imports it: its own line is what is wrong."""
  module = f"unfinished_{kind}"
  (tmp_path / f"{module}.py").write_text("\n\nx = nothing_of_that_name\n")
  first = tmp_path / f"a_{kind}.py"
  first.write_text(f"from {package.__name__} import {module}\n")
  monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
  assert catalogue.main([kind]) == 2
  line = capsys.readouterr().err
  assert f"{module}.py, line 3, cannot be imported: NameError" in line
  assert line.count("\n") == 1
