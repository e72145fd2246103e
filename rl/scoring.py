"""Probes and passes: what a method reads of a forward pass.

A `Probe` is a pure function of the head's output at a batch of positions; a
`Need` says of which parameters (and which text) it is wanted. All needs of one
source share one forward pass, and heads run on rematerialised chunks of scored
positions, so whole logits `[P, S, T, V]` never exist.

Sources: "policy", the parameters being differentiated; "old", the parameters
at the start of the training step; any slot of the state ("ref", "ema"). The
first two are the learner's own, if several learn (`rl.learners`). What no
forward pass gives has a source too: "task" and "stage" (`provided`), "host"
(`host`), and "prepared" (`rl.method`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl import minibatches, types

Array = jax.Array
# Who else fills `rollout.extras`, and what to say where it was not done.
GIVEN = {
  "task": "the task does not give it",
  "stage": "the method's sampling stage does not give it",
  "host": "compute it between sampling and the step, by rl.scoring.on_host",
  "prepared": "name it in the method's `prepared`",
}
# Views that are always there: the prompt's own tokens, and the completions
# after no more than the prompt's first token (its BOS, where it has one).
PROMPT = "prompt"
ALONE = "alone"
# Numbers that the widest head gives at once: 256 MiB of float32.
_AT_A_TIME = 2**26
_LEAST_CHUNK = 16  # positions of a prompt


@dataclasses.dataclass(frozen=True)
class Probe:
  """One quantity per token, read from a head of the policy.

  Attributes:
    name: with its hyper-parameters; the key under which it is found.
    fn: `(head output [N, ...], token [N], *reads [N, ...]) -> [N, ...]`.
    head: which head of `rl.types.Scored` it reads; "hidden" is what the heads
      themselves read, `[N, D]`.
    reads: needs of earlier passes whose values it takes as arguments.
    level: of what no pass gives; passes give tokens.
    logits: whether the head gives logits, which the temperature divides; None:
      the head "logits" does, others do not.
  """

  name: str
  fn: Callable[..., Array] = dataclasses.field(compare=False)
  head: str = "logits"
  reads: tuple[Need, ...] = ()
  level: types.Level = "token"
  logits: bool | None = None

  def __post_init__(self) -> None:
    if self.logits is None:
      object.__setattr__(self, "logits", self.head == "logits")

  def __str__(self) -> str:
    return self.name


@dataclasses.dataclass(frozen=True)
class Need:
  """A probe, of some parameters, on some text.

  Attributes:
    source: "policy", "old", a slot, or one of `GIVEN`.
    probe: what to read.
    view: which text of `rollout.views`; "" is the rollout itself, "prompt" the
      prompts' own tokens, "alone" the completions without what was asked.
  """

  source: str
  probe: Probe
  view: str = ""

  @property
  def sources(self) -> frozenset[str]:
    """The parameters its value depends on, those of what it reads included."""
    read = (need.sources for need in self.probe.reads)
    return frozenset({self.source}).union(*read)

  def __str__(self) -> str:
    at = f"@{self.view}" if self.view else ""
    return f"{self.source}{at}/{self.probe}"


def _log_probs(logits: Array, tokens: Array) -> Array:
  chosen = jnp.take_along_axis(logits, tokens[:, None], -1)[:, 0]
  return chosen - jax.nn.logsumexp(logits, -1)


def _entropy(logits: Array, tokens: Array) -> Array:
  del tokens
  log_probs = jax.nn.log_softmax(logits, -1)
  return -jnp.sum(jnp.exp(log_probs) * log_probs, -1)


def _value(values: Array, tokens: Array) -> Array:
  del tokens
  return values


log_probs = Probe("log_probs", _log_probs)  # log pi(token), nats
entropy = Probe("entropy", _entropy)  # of the whole next-token law, nats
values = Probe("values", _value, head="value")  # V before the token


def provided(source: str, name: str) -> Need:
  """What the task, the sampling stage or `Method.prepared` knows, by name."""
  return Need(source, Probe(name, _value))


def host(
  name: str,
  fn: Callable[[types.Rollout], Any],
  level: types.Level = "token",
  reads: Iterable[Need] = (),
) -> Need:
  """What numpy finds between sampling and the compiled step.

  Args:
    name: with its hyper-parameters.
    fn: `rollout -> array` at `level`; the rollout holds numpy arrays, and what
      it `reads` in its extras.
    level: "sample" or "token".
    reads: needs of passes that run before.
  """
  return Need("host", Probe(name, fn, reads=tuple(reads), level=level))


def on_host(needs: Iterable[Need], rollout: types.Rollout) -> types.Rollout:
  """The rollout with every host need in its extras; reads are there already."""
  wanted = sorted({n for n in needs if n.source == "host"}, key=str)
  if not wanted:
    return rollout
  seen = jax.device_get(rollout.replace(keys=None))
  found = {str(n): np.asarray(n.probe.fn(seen), np.float32) for n in wanted}
  return rollout.replace(extras=rollout.extras.update(found))


def read(
  policy: types.Policy,
  params: types.PyTree,
  tokens: types.Tokens,
  probes: Iterable[Probe],
  extras: types.Named,
  temperature: float = 1.0,
  chunk: int | None = None,
  watched: Iterable[Probe] = (),
) -> dict[str, Array]:
  """One forward pass; every probe of it, `{name: [P, S, T, ...]}`.

  Args:
    policy, params: what scores.
    tokens: the text.
    probes: what to read; differentiable in `params`.
    extras: where `probe.reads` are found.
    temperature: divides all logits: "the policy" is the law sampled from.
    chunk: how many of a prompt's S T positions go through the heads at a time;
      None: as many as give `_AT_A_TIME` numbers on a device. Scored ones come
      first and chunks without any are left out: with several chunks, what is
      not in `tokens.mask` reads 0. P is never cut, so a P sharded over devices
      stays where it is.
    watched: probes besides, whose gradient nobody asks for.
  """
  still = set(watched) - set(probes)
  probes = sorted({*probes, *still}, key=str)
  if not probes:
    return {}
  scored = policy.score(params, tokens)
  wanted = {p.head for p in probes}
  there = {"hidden", *scored.heads}
  if not wanted <= there:
    raise KeyError(
      f"the policy has no head {sorted(wanted - there)}; heads: {sorted(there)}"
    )

  def at_positions(heads, hidden, completions, reads):
    lead = completions.shape
    flat = hidden.reshape(-1, hidden.shape[-1])
    ids = completions.reshape(-1)
    outputs = {h: heads[h](flat) if h in heads else flat for h in wanted}
    scaled = {p.head for p in probes if p.logits}
    laws = {head: outputs[head] / temperature for head in scaled}
    result = {}
    for probe in probes:
      given = [
        reads[str(n)].reshape(-1, *reads[str(n)].shape[len(lead) :])
        for n in probe.reads
      ]
      output = (laws if probe.logits else outputs)[probe.head]
      if probe in still:
        output = jax.lax.stop_gradient(output)
      value = probe.fn(output, ids, *given)
      result[probe.name] = jax.tree.map(
        lambda v: v.reshape(*lead, *v.shape[1:]), value
      )
    return result

  def at_own(heads, inputs, mask):
    P, S, T = mask.shape
    fn = functools.partial(at_positions, heads)
    size = chunk
    if size is None:
      row = jax.ShapeDtypeStruct(scored.hidden.shape[-1:], scored.hidden.dtype)
      sizes = [jax.eval_shape(heads[h], row).size for h in wanted & set(heads)]
      widest = max(sizes, default=row.size)
      size = max(_AT_A_TIME // (P * widest), _LEAST_CHUNK)
    if size >= S * T:
      return fn(*inputs)
    return _in_chunks(fn, inputs, mask, size)

  reads = {str(n): extras[n] for p in probes for n in p.reads}
  inputs = (scored.hidden, tokens.completions, reads)
  # Of all prompts at once every chunk would gather the heads' parameters anew,
  # and add up their gradients over the devices.
  return scored.local(at_own)(scored.heads, inputs, tokens.mask)


def _in_chunks(
  fn: Callable[..., types.PyTree],
  inputs: types.PyTree,
  mask: Array,
  chunk: int,
) -> types.PyTree:
  """`fn` of positions `[P, chunk]` at a time; 0 where the mask is not.

  Args:
    fn: of the trees of `inputs`, position by position.
    inputs: leaves `[P, S, T, ...]`.
    mask: `[P, S, T]`.
    chunk: positions of a prompt.

  Returns:
    What `fn` gives, leaves `[P, S, T, ...]`.
  """
  P, S, T = mask.shape
  size = S * T
  chunks = -(-size // chunk)
  mask = mask.reshape(P, size)
  order = jnp.argsort(~mask, axis=-1)
  longest = mask.sum(-1).max()

  def cut(x):
    x = x.reshape(P, size, *x.shape[3:])
    x = _take(x, order)
    x = jnp.pad(
      x, [(0, 0), (0, chunks * chunk - size)] + [(0, 0)] * (x.ndim - 2)
    )
    return jnp.moveaxis(x.reshape(P, chunks, chunk, *x.shape[2:]), 1, 0)

  def join(x):
    x = jnp.moveaxis(x, 0, 1)
    x = x.reshape(P, chunks * chunk, *x.shape[3:])
    x = _take(x, jnp.argsort(order, axis=-1))
    x = jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - 2)), x, 0)
    return x.reshape(P, S, T, *x.shape[2:])

  def nothing(*part):
    found = jax.eval_shape(fn, *part)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), found)

  @jax.checkpoint
  def body(start, part):
    return start + chunk, jax.lax.cond(start < longest, fn, nothing, *part)

  _, result = jax.lax.scan(body, 0, jax.tree.map(cut, inputs))
  return jax.tree.map(join, result)


def _take(x: Array, places: Array) -> Array:
  """`x[p, places[p]]` of `[P, N, ...]`."""
  return jax.vmap(lambda row, place: row[place])(x, places)


def view_tokens(rollout: types.Rollout, view: str) -> types.Tokens:
  """The text a need reads.

  Raises:
    KeyError: the rollout lacks that view.
  """
  if not view:
    return rollout.tokens
  if view == PROMPT:
    return _prompts(rollout.tokens)
  if view == ALONE:
    return _alone(rollout.tokens)
  if view not in rollout.views:
    raise KeyError(
      f"view {view!r} is not in the rollout: the task must provide it. "
      f"available: {sorted(rollout.views)}"
    )
  return rollout.views[view]


def _prompts(tokens: types.Tokens) -> types.Tokens:
  """Each prompt after its first token, as the one sample of that token."""
  size = tokens.prompts.shape[-1]
  count = tokens.prompt_mask.sum(-1, keepdims=True)
  at = jnp.minimum(size - count + jnp.arange(size), size - 1)
  moved = jnp.take_along_axis(tokens.prompts, at, -1)
  mask = jnp.arange(size - 1) < count - 1
  return types.Tokens(
    prompts=moved[:, :1],
    prompt_mask=count > 0,
    completions=moved[:, None, 1:],
    lengths=jnp.maximum(count - 1, 0),
    mask=mask[:, None],
  )


def _alone(tokens: types.Tokens) -> types.Tokens:
  """The same completions after the first token of their prompts alone."""
  size = tokens.prompts.shape[-1]
  first = size - tokens.prompt_mask.sum(-1, keepdims=True)
  bos = jnp.take_along_axis(tokens.prompts, jnp.minimum(first, size - 1), -1)
  return tokens.replace(prompts=bos, prompt_mask=first < size)


def passes(
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  needs: Iterable[Need],
  rollout: types.Rollout,
  temperature: float = 1.0,
  chunk: int | None = None,
  parts: int = 1,
) -> types.Rollout:
  """The rollout with every need in its extras: one forward per source and view.

  Nothing of it is differentiated. A probe that reads another's result is read
  in a later forward.

  Args:
    policy: the functions of the model.
    parameters: `{source: params}`.
    needs: what to find; "policy" is not a source here.
    rollout: the text.
    temperature, chunk: as in `read`.
    parts: slices of P that are scored one after another, to save memory.

  Raises:
    KeyError: a source without parameters, a missing view, what was to be given
      and is not, or reads that no order of the passes can satisfy.
  """
  waiting = {need for need in needs if need.source not in GIVEN}
  for need in sorted(set(needs) - waiting, key=str):
    if need.source != "prepared" and need not in rollout.extras:
      raise KeyError(f"{need} is not there: {GIVEN[need.source]}")
  while waiting:
    ready = [
      need
      for need in sorted(waiting, key=str)
      if all(n in rollout.extras for n in need.probe.reads)
    ]
    if not ready:
      stuck = sorted(map(str, waiting))
      raise KeyError(f"no order of passes gives {stuck} what they read")
    source, view = ready[0].source, ready[0].view
    wanted = [n for n in ready if (n.source, n.view) == (source, view)]
    if source not in parameters:
      raise KeyError(
        f"{[str(n) for n in wanted]} need the parameters {source!r}; the state "
        f"has {sorted(parameters)}. Add a slot of that name to the method"
      )
    waiting.difference_update(wanted)

    def score(part, source=source, wanted=wanted):
      tokens, extras = part
      probes = [n.probe for n in wanted]
      return read(
        policy, parameters[source], tokens, probes, extras, temperature, chunk
      )

    reads = {str(n) for w in wanted for n in w.probe.reads}
    extras = types.Named({k: rollout.extras[k] for k in reads})
    texts = (view_tokens(rollout, view), extras)
    found = minibatches.map_parts(score, texts, parts)
    found = {str(n): found[n.probe.name] for n in wanted}
    rollout = rollout.replace(
      extras=rollout.extras.update(jax.lax.stop_gradient(found))
    )
  return rollout
