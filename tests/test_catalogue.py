"""The catalogue says of every method what its code says."""

import pytest

from experiments import catalogue
from rl import learners, methods, probes, stages, terms
from rl.method import Method
from rl.slots import ema, frozen, learned
from rl.surrogates import ppo_clip
from rl.terms import policy_gradient
from rl.transform import chain, transform
from rl.transforms import broadcast, broadcast_steps, scores, step_scores

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
  entry = catalogue.method(name)
  assert entry.name == name
  assert entry.paper
  assert len(entry.line) > 10
  assert entry.family == methods.family(name)
  assert "\n" not in entry.paper + entry.line


def test_what_every_rollout_has_is_no_need():
  assert needs(PLAIN) == ()
  assert needs(Method(LOSS, chain(scores(), broadcast()))) == ()
  usual = [probes.Need(s, probes.log_probs) for s in ("old", "policy")]
  assert needs(reads(*usual)) == ()


def test_steps_of_reasoning_are_a_need():
  credit = chain(step_scores(), broadcast_steps())
  assert needs(Method(LOSS, credit)) == ("step scores",)
  assert needs(Method(LOSS, credit + credit)) == ("step scores",)
  assert catalogue.method("min_form").needs == ("step scores",)


def test_slots_are_named_once_and_learned_ones_are_learners():
  slots = (("ref", frozen()), ("ema", ema(0.9)))
  assert needs(Method(LOSS, scores(), slots=slots[:1])) == ("slot ref",)
  assert needs(Method(LOSS, scores(), slots=slots)) == ("slots ref, ema",)
  taught = Method(LOSS, scores(), slots=(*slots[:1], ("prm", learned())))
  taught_by = Method(terms.nll(), slots=slots[:1])
  found = needs(taught, prm=taught_by)
  assert found == ("learners policy, prm", "slot ref")


def test_passes_are_named_by_whom_and_what():
  assert needs(reads(probes.Need("old", probes.entropy))) == (
    "pass old/entropy",
  )
  assert needs(reads(probes.Need("old", probes.values))) == ("value head",)
  prompt = probes.Need("old", probes.log_probs, view="prompt")
  assert needs(reads(prompt)) == ("pass old@prompt/log_probs",)


def test_what_no_pass_gives_is_named_by_who_gives_it():
  judged = probes.given("task", "preferences")
  found = probes.host("matches", lambda rollout: rollout.scores, level="sample")
  assert needs(reads(judged, found)) == ("host: matches", "task: preferences")
  assert needs(reads(probes.given("prepared", "advantage"))) == ()


def test_stages_and_who_samples_are_needs():
  greedy = Method(LOSS, scores(), stage=stages.greedy())
  assert needs(greedy) == ("stage greedy()",)
  slots = (("generator", ema(0.9)),)
  lagging = Method(LOSS, scores(), slots=slots, behavior="generator")
  assert needs(lagging) == ("slot generator", "samples by generator")


def test_a_row_is_one_line_whatever_is_in_it():
  entry = catalogue.Entry("a", "P | Q 2020", "sets", ("x", "y"), "Says |A|")
  head, rule, row = catalogue.markdown([entry]).splitlines()
  assert row == r"| `a` | P \| Q 2020 | sets | x; y | Says \|A\| |"
  assert head.count("|") == rule.count("|") == 6


def test_the_command_prints_all_of_them(capsys):
  assert catalogue.main(["methods", "--markdown"]) == 0
  rows = capsys.readouterr().out.splitlines()[2:]
  assert [row.split("`")[1] for row in rows] == methods.names()
  assert catalogue.main(["methods"]) == 0
  shown = capsys.readouterr().out
  assert "Shao et al. 2024" in shown


def test_it_lists_only_what_there_is(capsys):
  with pytest.raises(SystemExit):
    catalogue.main(["method"])
  assert "methods" in capsys.readouterr().err
