"""Needs, probes and passes: how quantities of a forward pass are computed.

A `Probe` is a quantity per token, such as the log-prob: a pure function of the
output of a head of the model. A `Need` is an array that a transform or term
asks for: a probe, together with the parameters and the text that it is computed
for. A *pass* is one forward pass that computes all needs with the same
parameters and text, and puts them into `Rollout.extras` (`passes`). A *view* is
another text than the rollout.

A probe may also read the hidden states after an earlier layer, by its share of
the depth. Such probes need a shorter forward pass of their own.

Heads are applied to chunks of scored positions, which are recomputed in the
backward pass, so that logits `[P, S, T, V]` of all positions never exist at
once. Axes: P prompts, S samples per prompt, T tokens, V vocabulary; N
positions of any samples.

A need names its parameters by a *source*:

  "policy"          the parameters that are differentiated
  "old"             the parameters at the start of the training step
  "ref", "ema", ... a parameter set of the training state, by name

If there are several learners (`rl.learners`), "policy" and "old" are the
parameters of the learner whose method has the need. Arrays that no pass
computes are needs as well, with the source "task" or "sampler" (which provide
them), "host" (computed with numpy before the training step), or "prepared"
(`Method.prepared`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError, bit_sets, types, update_plan

Array = jax.Array
# Sources whose needs no pass computes -> end of the error if one is missing.
EXTERNAL_SOURCES = {
  "task": "the task does not provide it",
  "sampler": "the method's sampler does not provide it",
  "host": "compute it between sampling and the step with "
  "rl.scoring.compute_on_host",
  "prepared": "add it to the method's `prepared`",
  "model": "name the workdir of the model in config.models",
}
# Views that every rollout has: the tokens of the prompts, and the completions
# with nothing before them but the first token of the prompt (such as BOS).
PROMPT = "prompt"
ALONE = "alone"
# Numbers that a head may return at a time, on one device: 512 MiB of float32.
_MAX_HEAD_OUTPUT = 2**27
# Smallest chunk, in positions per prompt, even if it exceeds the limit above.
_MIN_CHUNK = 16
# Logit of tokens outside of the support. It is finite, so that its product with
# the probability 0 is 0.
_REMOVED = -1e9


@dataclasses.dataclass(frozen=True)
class Probe:
  """A quantity per token, computed from the output of a head of the model.

  Attributes:
    name: the name with its hyper-parameters; part of the key of its values.
    fn: `(head output [N, ...], token ids [N], *reads [N, ...]) -> [N, ...]`,
      for N positions at a time. For the source "host", see `host`.
    head: head of `rl.types.Scored` whose output `fn` reads; "hidden" stands for
      the hidden states, the input of the heads, `[N, D]`.
    reads: needs of earlier passes whose values are further arguments of `fn`.
    level: level of the values. It is "token", except for needs on the host.
    logits: whether the head gives logits, which are divided by the temperature.
      None means True for the head "logits", and False for others.
    depth: share of the layers after which the forward pass stops
      (`rl.types.Policy.score`). Below 1, the only head is "hidden", and the
      name must differ from those of the same probe at other depths.
  """

  name: str
  fn: Callable[..., Array] = dataclasses.field(compare=False)
  head: str = "logits"
  reads: tuple[Need, ...] = ()
  level: types.Level = "token"
  logits: bool | None = None
  depth: float = 1.0

  def __post_init__(self) -> None:
    if self.logits is None:
      object.__setattr__(self, "logits", self.head == "logits")

  def __str__(self) -> str:
    return self.name


@dataclasses.dataclass(frozen=True)
class Need:
  """An array that a transform or term reads from `Rollout.extras`.

  Its string, such as "old/entropy" or "old@prompt/log_probs", is its key in the
  extras. Two needs are equal if source, view and probe are; the functions of
  their probes are not compared.

  Attributes:
    source: the parameters: "policy", "old" or the name of a parameter set; or
      one of `EXTERNAL_SOURCES`.
    probe: the quantity.
    view: the text: a name in `Rollout.views`, "" for the rollout itself,
      "prompt" for the tokens of the prompts, or "alone" for the completions
      after the first token of their prompts.
  """

  source: str
  probe: Probe
  view: str = ""

  @property
  def sources(self) -> frozenset[str]:
    """Every source that the value depends on, also through `Probe.reads`."""
    read_sources = (need.sources for need in self.probe.reads)
    return frozenset({self.source}).union(*read_sources)

  def __str__(self) -> str:
    suffix = f"@{self.view}" if self.view else ""
    return f"{self.source}{suffix}/{self.probe}"


@functools.cache
def _log_prob_function() -> Callable[[Array, Array], Array]:
  """Returns the function of `log_probs`, with a gradient in one pass."""

  def forward(logits: Array, tokens: Array) -> tuple[Array, tuple]:
    chosen = jnp.take_along_axis(logits, tokens[:, None], -1)[:, 0]
    total = jax.nn.logsumexp(logits, -1)
    return chosen - total, (logits, tokens, total)

  # JAX's own gradient stores the softmax, and reads and writes it twice more.
  def backward(saved: tuple, gradient: Array) -> tuple[Array, None]:
    logits, tokens, total = saved
    is_chosen = jnp.arange(logits.shape[-1]) == tokens[:, None]
    softmax = jnp.exp(logits - total[:, None])
    return gradient[:, None] * (is_chosen - softmax), None

  function = jax.custom_vjp(lambda *inputs: forward(*inputs)[0])
  function.defvjp(forward, backward)
  return function


def _log_probs(logits: Array, tokens: Array) -> Array:
  return _log_prob_function()(logits, tokens)


def _entropy(logits: Array, tokens: Array) -> Array:
  del tokens
  log_probs = logits - jax.nn.logsumexp(logits, -1, keepdims=True)
  return -jnp.sum(jnp.exp(log_probs) * log_probs, -1)


# log pi of the token, in nats.
log_probs = Probe("log_probs", _log_probs)
# Entropy of the distribution that predicts the token, in nats.
entropy = Probe("entropy", _entropy)
# Output of the value head for the text before the token.
values = Probe("values", lambda values, tokens: values, head="value")


def provided(source: str, name: str) -> Need:
  """Returns the need for an array that no pass computes.

  Args:
    source: "task", "sampler" (the method's sampler), "prepared", or "model" (a
      process reward model of the run).
    name: name of the array; its key in the extras is "SOURCE/NAME".
  """
  return Need(source, Probe(name, values.fn))


def host(
  name: str,
  fn: Callable[[types.Rollout], Any],
  level: types.Level = "token",
  reads: Iterable[Need] = (),
) -> Need:
  """Returns a need that numpy computes, between sampling and the training step.

  Args:
    name: the name with its hyper-parameters.
    fn: `rollout -> array` at `level`. The rollout holds numpy arrays; its
      extras hold the needs in `reads`.
    level: "sample" or "token".
    reads: needs that passes compute before `fn` is called.
  """
  return Need("host", Probe(name, fn, reads=tuple(reads), level=level))


def compute_on_host(
  needs: Iterable[Need], rollout: types.Rollout
) -> types.Rollout:
  """Adds the values of every host need to the extras of a rollout.

  Args:
    needs: needs of any source; only those of the source "host" are computed.
    rollout: a rollout whose extras have the `reads` of the host needs.
  """
  host_needs = sorted({n for n in needs if n.source == "host"}, key=str)
  if not host_needs:
    return rollout
  host_rollout = jax.device_get(rollout.replace(keys=None))
  arrays = {
    str(n): np.asarray(n.probe.fn(host_rollout), np.float32) for n in host_needs
  }
  return rollout.replace(extras=rollout.extras.update(arrays))


def read(
  policy: types.Policy,
  params: types.PyTree,
  tokens: types.Tokens,
  probes: Iterable[Probe],
  extras: types.Named,
  temperature: float = 1.0,
  chunk: int | None = None,
  stopped_probes: Iterable[Probe] = (),
) -> dict[str, Array]:
  """Runs a forward pass for each depth of the probes, and evaluates them.

  If the text was sampled from a truncated distribution and has its support
  (`Tokens.support`), the logits of all other tokens are removed: every policy
  is renormalised over the tokens that the sampler kept. The ratio to the
  sampler is then 1 on-policy, and its mean is 1 off-policy. The objective is
  that of the policy restricted to these tokens, which for an updated policy is
  not quite its own truncated distribution.

  Args:
    policy: the model.
    params: its parameters.
    tokens: the text.
    probes: probes that are differentiable with respect to `params`.
    extras: values of the needs that the probes read (`Probe.reads`).
    temperature: divisor of all logits. With the temperature of the sampler,
      probes are those of the distribution that the samples were drawn from.
    chunk: number of positions per prompt, of its S * T, that the heads are
      applied to at a time. None chooses the largest number for which no head
      returns more than `_MAX_HEAD_OUTPUT` numbers on a device. Scored positions
      come first, and chunks without a scored position are left out: with
      several chunks, or in a packed pass, values outside `tokens.mask` are 0.
      The axis P is not cut, so that prompts that are sharded over devices stay
      on their device.
    stopped_probes: further probes, which are not differentiated.

  Returns:
    `{name of the probe: [P, S, T, ...]}`.

  Raises:
    UsageError: if the policy lacks a head.
  """
  stopped = set(stopped_probes) - set(probes)
  probes = sorted({*probes, *stopped}, key=str)
  values: dict[str, Array] = {}
  for depth in sorted({p.depth for p in probes}):
    shortened = (depth,) if depth < 1 else ()
    values |= _evaluate(
      policy.score(params, tokens, *shortened),
      tokens,
      [p for p in probes if p.depth == depth],
      extras,
      temperature,
      chunk,
      stopped,
    )
  return values


def _evaluate(
  scored: types.Scored,
  tokens: types.Tokens,
  probes: list[Probe],
  extras: types.Named,
  temperature: float,
  chunk: int | None,
  stopped: set[Probe],
) -> dict[str, Array]:
  """Evaluates the probes of one forward pass; see `read`."""
  needed_heads = {p.head for p in probes}
  available = {"hidden", *scored.heads}
  if not needed_heads <= available:
    raise UsageError(
      f"the policy has no head {sorted(needed_heads - available)}; heads: "
      f"{sorted(available)}"
    )

  def evaluate(heads, hidden, completions, support, reads):
    """Evaluates the probes at positions `[P, S, T]` or `[P, chunk]`."""
    axes = completions.shape
    flat = hidden.reshape(-1, hidden.shape[-1])  # [N, D]
    ids = completions.reshape(-1)  # [N]
    outputs = {h: heads[h](flat) if h in heads else flat for h in needed_heads}
    logit_heads = {p.head for p in probes if p.logits}
    scaled = {head: outputs[head] / temperature for head in logit_heads}
    if support is not None:
      support = support.reshape(-1, support.shape[-1])  # [N, W]
      scaled = {
        head: jnp.where(
          bit_sets.unpack(support, logits.shape[-1]), logits, _REMOVED
        )
        for head, logits in scaled.items()
      }
    result = {}
    for probe in probes:
      read_values = [
        reads[str(n)].reshape(-1, *reads[str(n)].shape[len(axes) :])
        for n in probe.reads
      ]
      output = (scaled if probe.logits else outputs)[probe.head]
      if probe in stopped:
        output = jax.lax.stop_gradient(output)
      result[probe.name] = probe.fn(output, ids, *read_values)
    return jax.tree.map(lambda x: x.reshape(axes + x.shape[1:]), result)

  def evaluate_locally(heads, hidden, completions, support, reads, mask):
    """Evaluates the probes at the positions that a device holds."""
    P, S, T = mask.shape
    fn = functools.partial(evaluate, heads)
    inputs = (hidden, completions, support, reads)
    if chunk is None:
      vector = jax.ShapeDtypeStruct(hidden.shape[-1:], hidden.dtype)  # [D]
      widths = [
        jax.eval_shape(heads[h], vector).size for h in needed_heads & set(heads)
      ]
      widest = max(widths, default=vector.size)
      chunk_size = max(_MAX_HEAD_OUTPUT // (P * widest), _MIN_CHUNK)
      # A packed pass has room for more positions than are scored. With eight
      # chunks or more, some of them can be left out.
      chunk_size = min(chunk_size, -(-S * T // (8 if tokens.room else 1)))
    else:  # of the prompts of a group, if they are packed
      chunk_size = chunk * len(tokens.mask) // len(scored.hidden)
    if chunk_size >= S * T:
      return fn(*inputs)
    return _map_chunks(fn, inputs, mask, chunk_size)

  reads = {str(n): extras[n] for p in probes for n in p.reads}
  # `local` evaluates the chunks of each device on that device. Chunks of all
  # devices' prompts together would gather the parameters of the heads, and sum
  # their gradients over devices, once per chunk.
  return scored.local(evaluate_locally)(
    scored.heads,
    scored.hidden,
    tokens.completions,
    tokens.support,
    reads,
    tokens.mask,
  )


def _map_chunks(
  fn: Callable[..., types.PyTree],  # position by position
  inputs: types.PyTree,  # arrays [P, S, T, ...]
  mask: Array,  # [P, S, T]
  chunk: int,  # positions of a prompt at a time
) -> types.PyTree:
  """Applies `fn` to positions `[P, chunk]` at a time; 0 outside the mask."""
  P, S, T = mask.shape
  positions = S * T
  chunks = -(-positions // chunk)
  mask = mask.reshape(P, positions)
  # Scored positions first, so that the chunks after them can be left out.
  order = jnp.argsort(~mask, axis=-1)
  max_scored = mask.sum(-1).max()  # scored positions of a prompt

  def cut(x):  # [P, S, T, ...] -> [chunks, P, chunk, ...]
    x = x.reshape(P, positions, *x.shape[3:])
    x = _take(x, order)
    x = jnp.pad(
      x, [(0, 0), (0, chunks * chunk - positions)] + [(0, 0)] * (x.ndim - 2)
    )
    return jnp.moveaxis(x.reshape(P, chunks, chunk, *x.shape[2:]), 1, 0)

  def join(x):  # [chunks, P, chunk, ...] -> [P, S, T, ...]
    x = jnp.moveaxis(x, 0, 1)
    x = x.reshape(P, chunks * chunk, *x.shape[3:])
    x = _take(x, jnp.argsort(order, axis=-1))
    x = jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - 2)), x, 0)
    return x.reshape(P, S, T, *x.shape[2:])

  def zeros(*chunk_inputs):
    return jax.tree.map(jnp.zeros_like, jax.eval_shape(fn, *chunk_inputs))

  # The backward pass computes a chunk again instead of keeping its logits.
  @jax.checkpoint
  def body(start, chunk_inputs):
    result = jax.lax.cond(start < max_scored, fn, zeros, *chunk_inputs)
    return start + chunk, result

  _, result = jax.lax.scan(body, 0, jax.tree.map(cut, inputs))
  return jax.tree.map(join, result)


def _take(x: Array, indices: Array) -> Array:
  """`x[p, indices[p]]` for each p, with x `[P, N, ...]`, indices `[P, M]`."""
  return jax.vmap(lambda row, index: row[index])(x, indices)


def view_tokens(rollout: types.Rollout, view: str) -> types.Tokens:
  """Returns the tokens of a view; see `Need.view`.

  Raises:
    UsageError: if the rollout lacks the view.
  """
  if not view:
    return rollout.tokens
  if view == PROMPT:
    return _prompts(rollout.tokens)
  if view == ALONE:
    return _alone(rollout.tokens)
  if view not in rollout.views:
    raise UsageError(
      f"the rollout has no view {view!r}, which the task must provide; "
      f"available: {sorted(rollout.views)}"
    )
  return rollout.views[view]


def _prompts(tokens: types.Tokens) -> types.Tokens:
  """Returns the prompts as completions, so that their tokens can be scored."""
  L = tokens.prompts.shape[-1]
  count = tokens.prompt_mask.sum(-1, keepdims=True)  # [P, 1], prompt tokens
  # From padding on the left to padding on the right.
  indices = jnp.minimum(L - count + jnp.arange(L), L - 1)
  aligned = jnp.take_along_axis(tokens.prompts, indices, -1)
  mask = jnp.arange(L - 1) < count - 1
  # The first token of a prompt becomes the prompt, and its other tokens the
  # only completion: `prompts` `[P, 1]`, `completions` `[P, 1, L - 1]`.
  return types.Tokens(
    prompts=aligned[:, :1],
    prompt_mask=count > 0,
    completions=aligned[:, None, 1:],
    lengths=jnp.maximum(count - 1, 0),
    mask=mask[:, None],
  )


def _alone(tokens: types.Tokens) -> types.Tokens:
  """Returns the completions after only the first token of their prompts."""
  L = tokens.prompts.shape[-1]
  first = L - tokens.prompt_mask.sum(-1, keepdims=True)  # index; L if no token
  bos = jnp.take_along_axis(tokens.prompts, jnp.minimum(first, L - 1), -1)
  # The support is that after the whole prompt.
  return tokens.replace(prompts=bos, prompt_mask=first < L, support=None)


def passes(
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  needs: Iterable[Need],
  rollout: types.Rollout,
  temperature: float = 1.0,
  chunk: int | None = None,
  parts: int = 1,
) -> types.Rollout:
  """Runs the passes of all needs and adds their values to the extras.

  There is one pass per source, view and depth. A probe that reads the value of
  another need is computed in a later pass, even if source and view are the
  same. Nothing is differentiated.

  Args:
    policy: the model.
    parameters: `{source: params}`.
    needs: needs of any source but "policy".
    rollout: the rollout that is scored.
    temperature, chunk: same as in `read`.
    parts: number of slices along P that are scored one after another, to save
      memory.

  Returns:
    The rollout with the values in its extras.

  Raises:
    UsageError: if a source has no parameters, if a view is missing, if an array
      that the task, the sampler or the host must provide is missing, or if
      needs read each other in a circle.
  """
  waiting = {need for need in needs if need.source not in EXTERNAL_SOURCES}
  for need in sorted(set(needs) - waiting, key=str):
    if need.source != "prepared" and need not in rollout.extras:
      raise UsageError(
        f"the rollout has no {need}: {EXTERNAL_SOURCES[need.source]}"
      )
  while waiting:
    ready = [
      need
      for need in sorted(waiting, key=str)
      if all(n in rollout.extras for n in need.probe.reads)
    ]
    if not ready:
      names = sorted(map(str, waiting))
      raise UsageError(
        f"{names} read needs that are missing, or read each other; add what "
        "their probes read to the needs"
      )
    source, view = ready[0].source, ready[0].view
    pass_needs = [n for n in ready if (n.source, n.view) == (source, view)]
    if source not in parameters:
      raise UsageError(
        f"{[str(n) for n in pass_needs]} need the parameters {source!r}; the "
        f"state has {sorted(parameters)}. Add a parameter set {source!r}"
      )
    waiting.difference_update(pass_needs)

    def score(text_slice, source=source, pass_needs=pass_needs):
      tokens, extras = text_slice
      probes = [n.probe for n in pass_needs]
      return read(
        policy, parameters[source], tokens, probes, extras, temperature, chunk
      )

    reads = {str(n) for need in pass_needs for n in need.probe.reads}
    extras = types.Named({k: rollout.extras[k] for k in reads})
    text = (view_tokens(rollout, view), extras)
    by_probe = update_plan.map_parts(score, text, parts)
    by_need = {str(n): by_probe[n.probe.name] for n in pass_needs}
    rollout = rollout.replace(
      extras=rollout.extras.update(jax.lax.stop_gradient(by_need))
    )
  return rollout
