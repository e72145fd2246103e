"""Appeals against the verdicts of a verifier."""

import json

import numpy as np
import pytest

from rewards import judged
from rewards.verifiers import Item


def complete(messages):
  answer = json.loads(messages[1]["content"])["answer"]
  return json.dumps({"right": answer.endswith("yes")})


def group(*samples):
  return [Item("Q?", text, "R", {"score": score}) for text, score in samples]


def test_rejected_samples_are_asked_about():
  question = judged.get("appeal", share=1.0)
  groups = [group(("a yes", 0.0), ("b no", 0.0), ("c yes", 1.0))]
  values = question.ask(groups, complete, 2)
  np.testing.assert_array_equal(values, [[1, 0, -1]])
  accepted = [group(("a", 1.0), ("b", 0.5))]
  values = question.ask(accepted, complete, 2)
  np.testing.assert_array_equal(values, [[-1, -1]])
  values = question.ask(groups, lambda messages: "?", 2)
  np.testing.assert_array_equal(values, [[np.nan, np.nan, -1]])


def test_a_share_of_them_that_depends_on_the_text_alone():
  """400 samples with a share of .25: within 4 standard errors."""
  groups = [group(*((f"{i} yes", 0.0) for i in range(400)))]
  values = judged.get("appeal").ask(groups, complete, 4)[0]
  assert abs((values == 1).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 400)
  again = judged.get("appeal").ask([groups[0][::-1]], complete, 4)[0]
  np.testing.assert_array_equal(again[::-1], values)
  for share in (0.0, 1.5):
    with pytest.raises(ValueError, match="must be above 0 and at most 1"):
      judged.get("appeal", share=share)
