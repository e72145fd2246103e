"""A judge decides about the criteria of the prompt's rubric."""

from __future__ import annotations

from rewards.judged import base
from rewards.verifiers import rubric as rubrics
from rl import registry

_FORMS = {"explicit": rubrics.explicit, "implicit": rubrics.implicit}


def rubric(form: str = "explicit") -> base.Question:
  """Asks which criteria a completion satisfies, or for one grade beside them.

    explicit   R = clip(sum_j w_j c_j / sum_{w_j > 0} w_j, 0, 1), c_j in {0, 1}
    implicit   R = (grade - 1) / 9, the grade from 1 to 10

  The line of the prompt has the criteria, `"rubric": [{"text", "weight"}]` (see
  `rewards.verifiers.rubric`). A sample of a prompt without a rubric has no
  score.
  Source: Gunjal et al. 2025, Rubrics as Rewards: Reinforcement Learning Beyond
  Verifiable Domains (RaR).

  Args:
    form: "explicit" or "implicit".

  Raises:
    ValueError: the form is unknown.
  """
  if form not in _FORMS:
    raise ValueError(registry.describe_unknown("form", form, _FORMS))
  return base.of_samples(
    lambda items, complete, workers: _FORMS[form](
      items, complete, workers=workers
    )
  )
