"""Lines of the data of `tools` as examples."""

import pytest

from experiments.tasks.text import tools


def test_letters_with_accents_are_written_as_they_are():
  call = {"name": "weather", "arguments": {"city": "Málaga"}}
  text = '{"name": "weather", "arguments": {"city": "Málaga"}}'
  line = {"prompt": " Rain? ", "tools": [call, call], "answer": call}
  example = tools._example("line 1", line)
  assert example.question == f"{text}\n{text}\n\nRain?"
  answer = f"<tool_call>\n{text}\n</tool_call>"
  assert example.answer == example.solution == answer
  both = tools._example("line 1", {**line, "answer": [call, call]})
  assert both.answer == f"{answer}\n{answer}"
  shown = tools._example("line 1", {**line, "solution": " It rains. "})
  assert (shown.solution, shown.answer) == ("It rains.", answer)


@pytest.mark.parametrize("answer", [[], "", " "])
def test_without_calls_a_solution_says_so(answer):
  example = tools._example("line 1", {"prompt": "Hello!", "answer": answer})
  assert example.question == "Hello!"
  assert example.answer == ""
  assert example.solution == "No tool is needed."
