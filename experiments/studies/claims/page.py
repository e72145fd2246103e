"""Results of the claims as an HTML page, a Markdown table and a JSON file."""

from __future__ import annotations

import base64
import dataclasses
import html
import json
from collections.abc import Sequence
from typing import Any

from etils import epath

from experiments.logging import json_files
from experiments.report import shell
from experiments.studies.claims.claim import Claim, Comparison, verdict

_COLUMNS = ("comparison", "effect", "claimed", "decision")


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
  rows = [
    f"{_provenance(results)}. Effects are means over "
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


def _provenance(results: Sequence[Result]) -> str:
  return "; ".join(sorted({text for r in results for text in r.provenance}))


def to_json(results: Sequence[Result]) -> dict[str, Any]:
  """Returns the content of `claims.json`."""
  return {
    r.claim.name: {
      "statement": r.claim.statement,
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


def page(results: Sequence[Result]) -> str:
  """Returns an HTML page with embedded plots, which needs no other file."""
  overview = "".join(
    f'<tr><td><a href="#{r.claim.name}">{html.escape(r.claim.statement)}</a>'
    f"</td><td>{_verdict(r)}</td></tr>"
    for r in results
  )
  body = (
    f"<h1>Claims</h1><p>{html.escape(_provenance(results))}. The "
    "test of each claim was fixed before the run. Intervals are Student's 95 % "
    "intervals over training seeds; the held-out problems are the same for all "
    "seeds.</p>"
    "<table><thead><tr><th scope='col'>claim</th><th scope='col'>verdict</th>"
    f"</tr></thead><tbody>{overview}</tbody></table>"
    + "".join(map(_section, results))
  )
  links = [(r.claim.name, r.claim.name.replace("_", " ")) for r in results]
  return shell.page("Claims", body, links)


def _section(result: Result) -> str:
  """Returns the HTML section of one claim, with its table and its figure."""
  claim = result.claim
  rows = "".join(
    f"<tr><td>{html.escape(c.label)}</td>"
    f"<td class='number'>{effect(c)}</td><td>{c.expected}</td>"
    f"<td>{decision(c)}</td></tr>"
    for c in result.comparisons
  )
  picture = base64.b64encode(result.picture).decode()
  alt_text = f"{result.verdict}: " + "; ".join(
    f"{c.label} {effect(c)}" for c in result.comparisons
  )
  return (
    f"<section id='{claim.name}'><h2>{claim.name.replace('_', ' ')}: "
    f"{_verdict(result)}</h2><p>{html.escape(claim.statement)}<br>"
    f"<small>{html.escape(claim.source)}</small></p>"
    f"<p>{html.escape(claim.setting)}; {result.seeds} seeds.</p>"
    "<div class='wide'><table><thead><tr>"
    + "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
    + f"</tr></thead><tbody>{rows}</tbody></table></div>"
    f"<img alt='{html.escape(alt_text)}' "
    f"src='data:image/png;base64,{picture}'></section>"
  )


def _verdict(result: Result) -> str:
  # The class sets the colour; see `experiments/report/web/page.css`.
  css_class = result.verdict.replace(" ", "-")
  return f"<strong class='{css_class}'>{result.verdict}</strong>"


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
  """Writes `index.html`, `claims.md`, `claims.json` and a PNG per claim."""
  folder = epath.Path(folder)
  for result in results:
    json_files.replace(folder / f"{result.claim.name}.png", result.picture)
  json_files.replace(folder / "index.html", page(results))
  json_files.replace(folder / "claims.md", markdown(results))
  text = json.dumps(json_files.to_strict_json(to_json(results)), indent=2)
  json_files.replace(folder / "claims.json", text + "\n")
