"""Reference answers after thoughts."""

from helpers import small_math
from helpers.text_completions import ids_of


def test_the_reference_view_has_the_answer_after_each_thought(make, bare):
  """The sample's own answer is replaced; the mask covers answer and EOS."""
  task = make("math", tokenizer=bare, reference=True)
  problems = task.test(3)
  answers = [small_math.row(int(r))["answer"] for r in problems.facts["row"]]
  texts = [r"so \boxed{1}, no \boxed{2} it is", "no answer", r"\boxed{3}"]
  thoughts = [r"so \boxed{1}, no ", "no answer", ""]
  views = task.score(problems, *ids_of(bare, texts, "<eos>")).views
  view = views["reference"]
  assert view.prompts.shape == problems.prompts.shape
  for i, (answer, thought) in enumerate(zip(answers, thoughts, strict=True)):
    real = view.completions[i, 0, : view.lengths[i, 0]]
    written = rf"\boxed{{{answer}}}<eos>"
    assert task.decode(real) == thought + written
    assert task.decode(view.completions[i, 0][view.mask[i, 0]]) == written
  alone = views["bare_reference"]
  for i, answer in enumerate(answers):
    assert alone.mask.sum(-1).tolist() == alone.lengths.tolist()
    # Both have room for the longest of all references.
    room = view.completions.shape[-1] - task.completion_length
    assert alone.completions.shape == (3, 1, room)
    real = alone.completions[i, 0, : alone.lengths[i, 0]]
    assert task.decode(real) == rf"\boxed{{{answer}}}<eos>"
  without = make("math", tokenizer=bare)
  assert not without.score(problems, *ids_of(bare, texts, "<eos>")).views
