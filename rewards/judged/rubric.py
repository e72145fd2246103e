"""A judge decides about the criteria of the prompt's rubric."""

from __future__ import annotations

import dataclasses

from rewards.judged import base
from rewards.verifiers import Item, rubric_scoring
from rl import UsageError, registry

_FORMS = {
  "explicit": rubric_scoring.explicit,
  "implicit": rubric_scoring.implicit,
}


def rubric(
  form: str = "explicit", criteria: tuple[str, ...] = ()
) -> base.Question:
  """Asks which criteria a completion satisfies, or for one grade beside them.

    explicit   R = clip(sum_j w_j c_j / sum_{w_j > 0} w_j, 0, 1), c_j in {0, 1}
    implicit   R = (grade - 1) / 9, the grade from 1 to 10

  The line of the prompt has the criteria, `"rubric": [{"text", "weight"}]` (see
  `rewards.verifiers.rubric_scoring`). A sample of a prompt without a rubric has
  no score, unless `criteria` is given.
  Source: Gunjal et al. 2025, Rubrics as Rewards: Reinforcement Learning Beyond
  Verifiable Domains (RaR).

  Args:
    form: "explicit" or "implicit".
    criteria: criteria of equal weights for prompts whose line has no rubric.

  Raises:
    UsageError: the form is unknown.
  """
  if form not in _FORMS:
    raise UsageError(registry.describe_unknown("form", form, _FORMS))
  return base.of_samples(
    lambda items, complete, workers: _FORMS[form](
      [with_rubric(item, criteria) for item in items], complete, workers=workers
    )
  )


def with_rubric(item: Item, criteria: tuple[str, ...]) -> Item:
  """Returns an item with these criteria, if it has no rubric."""
  if not criteria or "rubric" in item.meta:
    return item
  rubric_of_item = [{"text": text, "weight": 1.0} for text in criteria]
  return dataclasses.replace(item, meta={**item.meta, "rubric": rubric_of_item})
