"""What came out of the claims: one page, one table."""

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

_COLUMNS = ("comparison", "effect", "claimed", "as claimed")


@dataclasses.dataclass(frozen=True)
class Tried:
  """A claim with what its run said.

  Attributes:
    claim: the claim.
    comparisons: of its test.
    seeds: how many ran.
    made: when and by what code its arms were trained.
    picture: PNG bytes.
  """

  claim: Claim
  comparisons: Sequence[Comparison]
  seeds: int
  made: Sequence[str]
  picture: bytes

  @property
  def verdict(self) -> str:
    return verdict(self.comparisons)


def markdown(tried: Sequence[Tried]) -> str:
  """The table that the README shows."""
  rows = [
    f"{_made(tried)}. Effects are means over "
    f"{', '.join(map(str, sorted({t.seeds for t in tried})))} seeds with "
    "Student's 95 % intervals, on the same held-out problems for all.",
    "",
    "| claim | measured | effect | claimed | |",
    "|---|---|---|---|---|",
  ]
  for t in tried:
    rows.append(f"| {t.claim.statement} | | | | **{t.verdict}** |")
    rows += [
      f"| | {c.label} | {effect(c)} | {c.expected} | {mark(c)} |"
      for c in t.comparisons
    ]
  return "\n".join(rows) + "\n"


def _made(tried: Sequence[Tried]) -> str:
  return "; ".join(sorted({made for t in tried for made in t.made}))


def record(tried: Sequence[Tried]) -> dict[str, Any]:
  """The same for programs."""
  return {
    t.claim.name: {
      "statement": t.claim.statement,
      "verdict": t.verdict,
      "seeds": t.seeds,
      "made": list(t.made),
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
        for c in t.comparisons
      ],
    }
    for t in tried
  }


def page(tried: Sequence[Tried]) -> str:
  """One self-contained HTML page."""
  head = "".join(
    f'<tr><td><a href="#{t.claim.name}">{html.escape(t.claim.statement)}</a>'
    f"</td><td>{_verdict(t)}</td></tr>"
    for t in tried
  )
  body = (
    f"<h1>Claims</h1><p>{html.escape(_made(tried))}. The test of a "
    "claim stands in its file; intervals are Student's, 95 %, over seeds of "
    "training, on the same held-out problems for all.</p>"
    "<table><thead><tr><th scope='col'>claim</th><th scope='col'>verdict</th>"
    f"</tr></thead><tbody>{head}</tbody></table>"
    + "".join(map(_section, tried))
  )
  links = [(t.claim.name, t.claim.name.replace("_", " ")) for t in tried]
  return shell.page("Claims", body, links)


def _section(t: Tried) -> str:
  rows = "".join(
    f"<tr><td>{html.escape(c.label)}</td>"
    f"<td class='number'>{effect(c)}</td><td>{c.expected}</td>"
    f"<td>{mark(c)}</td></tr>"
    for c in t.comparisons
  )
  picture = base64.b64encode(t.picture).decode()
  spoken = f"{t.verdict}: " + "; ".join(
    f"{c.label} {effect(c)}" for c in t.comparisons
  )
  return (
    f"<section id='{t.claim.name}'><h2>{t.claim.name.replace('_', ' ')}: "
    f"{_verdict(t)}</h2><p>{html.escape(t.claim.statement)}<br>"
    f"<small>{html.escape(t.claim.source)}</small></p>"
    f"<p>{html.escape(t.claim.setting)}; {t.seeds} seeds.</p><div class='wide'><table><thead><tr>"
    + "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
    + f"</tr></thead><tbody>{rows}</tbody></table></div><img alt='{html.escape(spoken)}' "
    f"src='data:image/png;base64,{picture}'></section>"
  )


def _verdict(t: Tried) -> str:
  css = t.verdict.replace(" ", "-")
  return f"<strong class='{css}'>{t.verdict}</strong>"


def effect(c: Comparison) -> str:
  """Mean and interval, as one reads them."""
  low, high = c.interval
  return f"{c.mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def mark(c: Comparison) -> str:
  """Whether it is as claimed."""
  if c.region == "reported":
    return ""
  if c.holds is None:
    return f"open, {c.detectable:.3f} could be seen"
  return "holds" if c.holds else "fails"


def write(tried: Sequence[Tried], folder: epath.PathLike) -> None:
  """Writes `index.html`, `claims.md`, `claims.json` and a PNG per claim."""
  folder = epath.Path(folder)
  for t in tried:
    json_files.replace(folder / f"{t.claim.name}.png", t.picture)
  json_files.replace(folder / "index.html", page(tried))
  json_files.replace(folder / "claims.md", markdown(tried))
  text = json.dumps(json_files.to_strict_json(record(tried)), indent=2)
  json_files.replace(folder / "claims.json", text + "\n")
