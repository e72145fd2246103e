"""Results of the claims as a Markdown table, pictures and a JSON file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from etils import epath

from experiments.logging import json_files
from experiments.studies.claims.claim import Claim, Comparison, verdict


@dataclasses.dataclass(frozen=True)
class Result:
  """A claim with the results of its runs.

  Attributes:
    claim: the claim.
    comparisons: comparisons that the test of the claim computed.
    seeds: number of seeds.
    provenance: one text for each distinct combination of date, commit, JAX
      version and devices of the runs.
    picture: figure of the claim, as the content of a PNG file.
  """

  claim: Claim
  comparisons: Sequence[Comparison]
  seeds: int
  provenance: Sequence[str]
  picture: bytes

  @property
  def verdict(self) -> str:
    return verdict(self.comparisons)


def markdown(results: Sequence[Result]) -> str:
  """Returns the table of the results for the README, in Markdown."""
  provenance = sorted({text for r in results for text in r.provenance})
  rows = [
    f"{'; '.join(provenance)}. Effects are means over "
    f"{', '.join(map(str, sorted({r.seeds for r in results})))} seeds with "
    "Student's 95 % intervals. The held-out problems are the same for all "
    "seeds.",
    "",
    "| claim | measured | effect | claimed | |",
    "|---|---|---|---|---|",
  ]
  for result in results:
    rows.append(f"| {result.claim.statement} | | | | **{result.verdict}** |")
    rows += [
      f"| | {c.label} | {effect(c)} | {c.expected} | {decision(c)} |"
      for c in result.comparisons
    ]
  return "\n".join(rows) + "\n"


def to_json(results: Sequence[Result]) -> dict[str, Any]:
  """Returns the content of `claims.json`."""
  return {
    r.claim.name: {
      "statement": r.claim.statement,
      "source": r.claim.source,
      "setting": r.claim.setting,
      "verdict": r.verdict,
      "seeds": r.seeds,
      "made": list(r.provenance),
      "comparisons": [
        {
          "label": c.label,
          "mean": c.mean,
          "low": c.interval[0],
          "high": c.interval[1],
          "expected": c.expected,
          "holds": c.holds,
          "detectable": c.detectable,
          "effects": [float(x) for x in c.effects],
        }
        for c in r.comparisons
      ],
    }
    for r in results
  }


def effect(c: Comparison) -> str:
  """Returns mean and interval as text, such as "+0.090 [+0.078, +0.101]"."""
  low, high = c.interval
  return f"{c.mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def decision(c: Comparison) -> str:
  """Returns the decision as text; "" for a comparison that is only reported."""
  if c.region == "reported":
    return ""
  if c.holds is None:
    return f"undecided, detectable: {c.detectable:.3f}"
  return "holds" if c.holds else "fails"


def write(results: Sequence[Result], folder: epath.PathLike) -> None:
  """Writes `claims.md`, `claims.json` and a PNG file for each claim."""
  folder = epath.Path(folder)
  for result in results:
    json_files.replace(folder / f"{result.claim.name}.png", result.picture)
  json_files.replace(folder / "claims.md", markdown(results))
  json_files.replace_object(folder / "claims.json", to_json(results))
