"""The catalogue says of everything what its code says."""

import pytest

import rewards
from experiments import catalogue, tasks
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
  """A method whose advantage reads them."""

  @transform("sample", needs=frozenset(needs))
  def look(signal, rollout):
    return signal

  return Method(LOSS, chain(scores(), look()))


def needs(*made, **others):
  return catalogue.needs({learners.POLICY: made[0], **others})


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_its_paper_and_its_line(name):
  row = catalogue.method(name)
  assert row["method"] == name
  assert row["paper"]
  assert len(row["in a line"]) > 10
  assert row["family"] == methods.family(name)
  assert "\n" not in row["paper"] + row["in a line"]


@pytest.mark.parametrize("name", catalogue.rewards_there())
def test_every_reward_has_its_line_and_where_it_runs(name):
  row = catalogue.reward(name)
  assert row["reward"] == name
  assert row["runs"] in ("host", "jittable")
  assert len(row["in a line"]) > 10
  assert row["reads"]
  assert "\n" not in row["paper"] + row["in a line"]


def test_every_reward_of_a_config_is_in_the_catalogue():
  rows = [catalogue.reward(name) for name in catalogue.rewards_there()]
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


def test_what_every_rollout_has_is_no_need():
  assert needs(PLAIN) == ()
  assert needs(Method(LOSS, chain(scores(), broadcast()))) == ()
  usual = [scoring.Need(s, scoring.log_probs) for s in ("old", "policy")]
  assert needs(reads(*usual)) == ()


def test_steps_of_reasoning_are_a_need():
  credit = chain(step_scores(), broadcast_steps())
  assert needs(Method(LOSS, credit)) == ("step scores",)
  assert needs(Method(LOSS, credit + credit)) == ("step scores",)
  assert catalogue.method("min_form")["needs"] == "step scores"


def test_slots_are_named_once_and_learned_ones_are_learners():
  parameter_sets = (("ref", frozen()), ("ema", ema(0.9)))
  assert needs(Method(LOSS, scores(), parameter_sets=parameter_sets[:1])) == (
    "slot ref",
  )
  assert needs(Method(LOSS, scores(), parameter_sets=parameter_sets)) == (
    "slots ref, ema",
  )
  taught = Method(
    LOSS, scores(), parameter_sets=(*parameter_sets[:1], ("prm", learned()))
  )
  taught_by = Method(terms.nll(), parameter_sets=parameter_sets[:1])
  found = needs(taught, prm=taught_by)
  assert found == ("learners policy, prm", "slot ref")


def test_passes_are_named_by_whom_and_what():
  assert needs(reads(scoring.Need("old", scoring.entropy))) == (
    "pass old/entropy",
  )
  assert needs(reads(scoring.Need("old", scoring.values))) == ("value head",)
  prompt = scoring.Need("old", scoring.log_probs, view="prompt")
  assert needs(reads(prompt)) == ("pass old@prompt/log_probs",)


def test_what_no_pass_gives_is_named_by_who_gives_it():
  judged = scoring.provided("task", "preferences")
  found = scoring.host(
    "matches", lambda rollout: rollout.scores, level="sample"
  )
  assert needs(reads(judged, found)) == ("host: matches", "task: preferences")
  assert needs(reads(scoring.provided("prepared", "advantage"))) == ()


def test_stages_and_who_samples_are_needs():
  greedy = Method(LOSS, scores(), sampler=samplers.greedy())
  assert needs(greedy) == ("sampler greedy()",)
  parameter_sets = (("generator", ema(0.9)),)
  lagging = Method(
    LOSS, scores(), parameter_sets=parameter_sets, behavior="generator"
  )
  assert needs(lagging) == ("slot generator", "samples by generator")


def test_a_row_is_one_line_whatever_is_in_it():
  row = {"method": "a", "paper": "P | Q 2020", "in a line": "Says |A|"}
  head, rule, line = catalogue.markdown([row]).splitlines()
  assert head == "| method | paper | in a line |"
  assert line == r"| `a` | P \| Q 2020 | Says \|A\| |"
  assert head.count("|") == rule.count("|") == 4


def test_a_preset_is_told_by_its_size_and_its_shape():
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


def test_the_command_prints_all_presets(capsys):
  assert catalogue.main(["presets", "--markdown"]) == 0
  rows = capsys.readouterr().out.splitlines()[2:]
  assert [row.split("`")[1] for row in rows] == presets.names()
  assert catalogue.main(["presets"]) == 0
  shown = capsys.readouterr().out
  assert "596,049,920" in shown  # qwen3-0.6b, on one line


def test_it_lists_only_what_there_is(capsys):
  with pytest.raises(SystemExit):
    catalogue.main(["method"])
  assert "methods" in capsys.readouterr().err


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
