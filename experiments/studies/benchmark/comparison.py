"""Compares this project with other codebases, at one shape or at several.

The processes of both sides (`sides`) are searched for their fastest settings,
must prove that they do the same work, and are then called alternately. Each
round calls both sides back to back. Other work on the machine slows both calls
of a round alike, so the median ratio over rounds is stable even where the times
are not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import rich.console

from experiments.studies.benchmark import machine, outcome, sides, sizes
from experiments.studies.benchmark.outcome import Outcome, Row
from experiments.studies.benchmark.peers import PEERS
from models import flop_counts
from rl import UsageError, registry

NONE = "none"  # value of `peer` with which only this project is measured
# Number of prompts, and of greedy tokens per prompt, that both sides generate
# to show that they compute the same model.
PROOF_PROMPTS, PROOF_TOKENS = 4, 32
Options = Mapping[str, Sequence[Any]]  # settings to try, by name


class Case(NamedTuple):
  """One shape that is measured."""

  name: str
  shape: sizes.Shape
  job: Mapping[str, Any]  # of all sides
  # Launches of the peers, without the job; None measures our side alone.
  peers: Sequence[sides.Launch | None]

  @property
  def ours(self) -> sides.Launch:
    """The launch of our side."""
    return sides.Launch("ours", sides.OURS, self.job)


@dataclasses.dataclass(frozen=True)
class Rival:
  """The other side of the comparison in one row of the table."""

  row: str  # name of the row
  # Launch of the other side; None if this project is measured alone.
  launch: sides.Launch | None = None
  options: Options = dataclasses.field(default_factory=dict)
  # Function `(ours, other, report)` that raises an error if the two sides do
  # different work. `other` is None if there is no other side.
  check: Callable[..., None] = lambda *_: None
  # Raises an error if two calls did different work.
  check_pair: Callable[[sides.Call, sides.Call], None] = lambda *_: None
  limit: float | None = None  # least allowed ratio
  bound_limit: float | None = None  # least allowed `Row.bound_fraction`


def compare(
  console: rich.console.Console,
  shape: str,
  shapes: Mapping[str, sizes.Shape],
  *,
  write: Callable[[sizes.Shape, pathlib.Path], Mapping[str, Any]],
  options: Callable[[sizes.Shape], Options],
  rivals: Callable[[Case], Iterable[Rival]],
  costs: Sequence[Callable[..., flop_counts.Cost]],
  calls: int,
  peers: Sequence[str] = (),
  allowed: Sequence[str] = (),
  pythons: Mapping[str, str] | None = None,
  trial: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {},
  utilization: bool = False,
) -> Outcome:
  """Measures this project and its rivals, at one shape or at all shapes.

  The limits of the machine (`machine.measure`) are measured first.

  Args:
    console: console for progress.
    shape: name of one of `shapes`; "" measures all.
    shapes: shapes by name.
    write: writes the files that all sides read into a folder and returns the
      job of all sides.
    options: function from a shape to the settings of our side to try.
    rivals: function that returns one rival for each row.
    costs: functions of `models.flop_counts`; a call does the work of each.
    calls: number of timed calls of each side.
    peers: names of the peers; "none" measures this project alone.
    allowed: names of peers that the benchmark accepts.
    pythons: Python interpreters by peer, for peers that are installed in an
      environment of their own.
    trial: function for `sides.start_fastest`.
    utilization: whether rows have `Row.work`.

  Raises:
    UsageError: the shape or a peer is unknown, a peer is not installed, a side
      fails, or the sides do different work.
  """
  if shape and shape not in shapes:
    raise UsageError(registry.describe_unknown("shape", shape, shapes))
  # Raises if a peer is missing, before a measurement.
  launches = [find_peer(peer, allowed, pythons or {}) for peer in peers]

  def report(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)

  limits = machine.measure(report)
  report(f"this machine: {limits}")
  rows: list[Row] = []
  for name in [shape] if shape else shapes:
    size = shapes[name]
    # A call at a shape of mixed lengths takes minutes.
    settings = {"trials": 1 if size.mean_length else 2, "trial": trial}
    search = functools.partial(sides.start_fastest, report=report, **settings)
    with tempfile.TemporaryDirectory() as folder:
      report(f"{name}: writing the weights and prompts of all sides")
      job = write(size, pathlib.Path(folder))
      case = Case(name, size, job, launches)
      with search(case.ours, options(size)) as our_side:
        for rival in rivals(case):
          other_side = contextlib.nullcontext()
          if rival.launch:
            other_side = search(rival.launch, rival.options)
          with other_side as other:
            rival.check(our_side, other, report)
            both = our_side, other
            row = measure_row(rival, size, *both, calls, costs, limits, report)
            work = row.work if utilization else {}
            rows.append(dataclasses.replace(row, work=work))
  return outcome.from_rows(rows, machine=limits._asdict())


def find_peer(
  peer: str, allowed: Sequence[str], pythons: Mapping[str, str]
) -> sides.Launch | None:
  """Returns the launch of a peer without a job, or None for the peer "none".

  Raises:
    UsageError: the peer is not one of the `allowed` ones, or its packages are
      not installed.
  """
  for name in (peer, *pythons):
    if name not in allowed:
      raise UsageError(registry.describe_unknown("peer", name, allowed))
  if peer == NONE:
    return None
  spec, python = PEERS[peer], pythons.get(peer, sys.executable)
  sides.check_installed(peer, python, spec.needs, spec.install)
  return sides.Launch(peer, spec.program, {}, python)


def check_same_greedy_tokens(
  ours: sides.Side, peer: sides.Side, report: sides.Report
) -> None:
  """Checks that both sides generate the same greedy tokens.

  Both sides must compute in float32. The entry "plain" of our job is a folder
  of weights whose completions never end.

  Raises:
    UsageError: the tokens of the sides differ, or too few distinct tokens occur
      to show that the models are equal.
  """
  settings = {"prompts": PROOF_PROMPTS, "tokens": PROOF_TOKENS}
  our_completions, peer_completions = (
    side.ask("greedy", folder=ours.launch.job["plain"], **settings)["tokens"]
    for side in (ours, peer)
  )
  pairs = zip(our_completions, peer_completions, strict=True)
  for number, (our_tokens, peer_tokens) in enumerate(pairs):
    for position, (our_token, peer_token) in enumerate(
      zip(our_tokens, peer_tokens, strict=True)
    ):
      if our_token != peer_token:
        raise UsageError(
          f"{peer.launch} computes something else: greedy token {position} "
          f"of prompt {number} is {peer_token}, ours is {our_token}"
        )
  distinct = {token for tokens in our_completions for token in tokens}
  if len(distinct) < PROOF_TOKENS // 2:
    raise UsageError(
      f"{len(distinct)} different greedy tokens in {PROOF_PROMPTS} completions "
      "prove nothing; use weights with larger layers"
    )
  report(
    f"proved: {PROOF_PROMPTS} x {PROOF_TOKENS} greedy tokens of {peer.launch} "
    f"are ours, {len(distinct)} different ones"
  )


def measure_row(
  rival: Rival,
  shape: sizes.Shape,
  ours: sides.Side,
  other: sides.Side | None,
  calls: int,
  costs: Sequence[Callable[..., flop_counts.Cost]],
  limits: machine.Machine,
  report: sides.Report,
) -> Row:
  """Times calls of one side or of two sides, and returns the table's row.

  The side that is called first alternates. All sides run once before the first
  round, untimed, to compile and to fill caches. `other` is None if this project
  is measured alone.
  """
  calls_by_side = {side: [] for side in (ours, other) if side}
  order = list(calls_by_side)
  for side in order:
    report(f"{side.launch.name}: warming up")
    side.run(0)
  for number in range(1, calls + 1):
    for side in order if number % 2 else order[::-1]:
      call = side.run(number)
      calls_by_side[side].append(call)
      report(f"{number} of {calls}: {side.launch.name}: {call.seconds:.2f} s")
    if other:
      rival.check_pair(*(calls_by_side[side][-1] for side in order))

  def work(call: sides.Call) -> list[flop_counts.Cost]:
    lengths = call.counts["lengths"]
    return [cost(shape.model, shape.prompt_length, lengths) for cost in costs]

  def tokens_per_second(side: sides.Side) -> float:
    rates = (call.tokens / call.seconds for call in calls_by_side[side])
    return statistics.median(rates)

  our_calls = calls_by_side[ours]
  by_speed = sorted(our_calls, key=lambda call: call.seconds / call.tokens)
  median_call = by_speed[calls // 2]
  row = Row(
    rival.row,
    str(shape),
    "tokens/s",
    tokens_per_second(ours),
    bound_fraction=statistics.median(
      sum(map(limits.least_seconds, work(call))) / call.seconds
      for call in our_calls
    ),
    bound_limit=rival.bound_limit,
    work=limits.utilization(
      flop_counts.Cost(*map(sum, zip(*work(median_call), strict=True))),
      median_call.seconds,
    ),
    settings={"ours": ours.launch.setting},
  )
  if other is None:
    return row

  def median_ratio(field: str) -> float:
    """Returns the median over rounds of the other side's cost over ours."""
    return statistics.median(
      (getattr(theirs, field) / theirs.tokens)
      / (getattr(own, field) / own.tokens)
      for own, theirs in zip(our_calls, calls_by_side[other], strict=True)
    )

  return dataclasses.replace(
    row,
    peer=tokens_per_second(other),
    ratio=median_ratio("seconds"),
    cpu_ratio=median_ratio("cpu_seconds"),
    settings=row.settings | {"peer": other.launch.setting},
    limit=rival.limit,
  )
