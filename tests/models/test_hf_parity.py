"""Every family against transformers in PyTorch, float32, random weights."""

import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip(
  "torch",
  reason="the families are compared with PyTorch: pip install .[parity]",
)

from helpers import hf_folders  # noqa: E402

from experiments.studies.benchmark.on_accelerator import (  # noqa: E402
  reference,
)
from models import hf, policy, transformer  # noqa: E402
from rl.sampling import generation  # noqa: E402

LENGTH, NEW = 20, 32
# Whole, padded on the left, padded on the right.
MASK = np.ones((3, LENGTH), bool)
MASK[1, :5] = MASK[2, -6:] = False
TOKENS = np.random.default_rng(0).integers(0, hf_folders.VOCAB, MASK.shape)
SCORED = MASK[:, 1:] & MASK[:, :-1]


@functools.partial(jax.jit, static_argnums=0)
def ours(config, params):
  """Mean log-prob of the tokens, its gradient, and the logits."""

  def mean_log_prob(params):
    tokens = jnp.asarray(TOKENS)
    logits = transformer.logits(config, params, tokens, jnp.asarray(MASK))
    log_probs = jax.nn.log_softmax(logits[:, :-1])
    chosen = jnp.take_along_axis(log_probs, tokens[:, 1:, None], -1)[..., 0]
    return jnp.where(SCORED, chosen, 0).sum() / SCORED.sum(), logits

  grads, logits = jax.grad(mean_log_prob, has_aux=True)(params)
  return grads, logits


def theirs(model):
  """Logits, and the gradient of the mean log-prob left in the model."""
  mask, tokens = torch.tensor(MASK), torch.tensor(TOKENS)
  positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
  logits = model(
    input_ids=tokens, attention_mask=mask.long(), position_ids=positions
  ).logits
  log_probs = logits[:, :-1].log_softmax(-1)
  chosen = log_probs.gather(-1, tokens[:, 1:, None])[..., 0]
  (chosen * torch.tensor(SCORED)).sum().div(SCORED.sum()).backward()
  return logits.detach().numpy()


def largest_difference(one, other):
  return np.abs(np.asarray(one) - other)[MASK].max()


@pytest.fixture(scope="module", params=list(hf_folders.CASES))
def case(request, tmp_path_factory):
  """Name, torch's decoder, and what is read of its folder."""
  folder = tmp_path_factory.mktemp(request.param)
  model = hf_folders.write(request.param, folder)
  return request.param, model, *hf.load(folder)


PROMPTS = np.array([np.arange(LENGTH) >= 0, np.arange(LENGTH) >= 7])
SAMPLING = generation.Sampling(2, NEW, eos_ids=(), pad_id=0, temperature=0.0)


@functools.partial(jax.jit, static_argnums=0)
def our_greedy(config, params):
  keys = generation.prompt_keys(jax.random.key(0), 0, jnp.arange(len(PROMPTS)))
  prompts = jnp.asarray(TOKENS[: len(PROMPTS)])
  bound = policy.bind(config)
  return generation.generate(
    bound, params, prompts, jnp.asarray(PROMPTS), keys, SAMPLING
  ).completions


def their_greedy(model):
  tokens = torch.tensor(TOKENS[: len(PROMPTS)])
  mask = torch.tensor(PROMPTS).long()
  with torch.no_grad():
    return model.generate(
      input_ids=tokens,
      attention_mask=mask,
      max_new_tokens=NEW,
      do_sample=False,
      pad_token_id=0,
    )[:, LENGTH:].numpy()


def their_greedy_at_full_length(model):
  """Every token from a forward pass over all before, without a cache.

  "dynamic" rotation follows the longest row so far, which in transformers
  leaves old keys turned by the old angles. Here all are turned as for the full
  length from the start, as one would be scored.
  """
  model = copy.deepcopy(model)  # it remembers the longest row
  tokens = torch.tensor(TOKENS[: len(PROMPTS)])
  mask = torch.tensor(PROMPTS).long()
  with torch.no_grad():
    full = torch.zeros(1, LENGTH + NEW, dtype=torch.long)
    model(input_ids=full)  # makes the rotation that of the full length
    for _ in range(NEW):
      positions = (mask.cumsum(-1) - 1).clamp(min=0)
      logits = model(
        input_ids=tokens, attention_mask=mask, position_ids=positions
      ).logits
      tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)
      mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
  return tokens[:, LENGTH:].numpy()


def test_greedy_tokens_through_the_cache_are_those_of_torch(case):
  name, model, config, params = case
  dynamic = hf_folders.CASES[name].dynamic
  greedy = their_greedy_at_full_length if dynamic else their_greedy
  want = greedy(model)
  got = np.asarray(our_greedy(config, params))
  for sample in range(SAMPLING.samples):  # all share the prompt's keys
    np.testing.assert_array_equal(got[:, sample], want)
  assert len(np.unique(want)) > 3


def test_export_is_the_same_decoder_in_transformers(case, tmp_path):
  _, model, config, params = case
  hf.save(config, params, tmp_path / "out")
  again = hf_folders.open_folder(tmp_path / "out")
  assert type(again) is type(model)
  for name, weights in model.state_dict().items():
    assert torch.equal(weights, again.state_dict()[name]), name
  fresh, tokens = copy.deepcopy(model), torch.tensor(TOKENS)
  with torch.no_grad():
    assert torch.equal(fresh(tokens).logits, again(tokens).logits)


def test_logits_and_gradients_are_those_of_torch(case, tmp_path):
  _, model, config, params = case
  model = copy.deepcopy(model)
  want = theirs(model)
  grads, logits = ours(config, params)
  assert np.std(want[MASK]) > 1
  assert largest_difference(logits, want) < 1e-4
  # A gradient is laid out like the weights, so a folder brings it here.
  with torch.no_grad():
    for weights in model.parameters():
      weights.copy_(weights.grad)
  model.save_pretrained(tmp_path / "gradient")
  _, want = hf.load(tmp_path / "gradient")
  floor = 1e-6 * np.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(want)))
  for (path, mine), his in zip(
    jax.tree_util.tree_leaves_with_path(grads),
    jax.tree.leaves(want),
    strict=True,
  ):
    distance, norm = jnp.linalg.norm(mine - his), jnp.linalg.norm(his)
    # A bias of keys that are not turned has no effect, so its gradient is only
    # rounding: below a millionth of the whole.
    assert distance < max(1e-3 * norm, floor), jax.tree_util.keystr(path)


def test_theta_of_the_config_turns_the_logits(tmp_path):
  before = theirs(hf_folders.write("qwen3", tmp_path))
  rotary = {"rope_type": "default", "rope_theta": 300.0}
  hf_folders.edit(tmp_path, rope_parameters=rotary)
  want = theirs(hf_folders.open_folder(tmp_path))
  _, logits = ours(*hf.load(tmp_path))
  assert largest_difference(logits, want) < 1e-4
  assert largest_difference(before, want) > 0.1


def test_the_reference_logits_of_the_accelerator_kit_are_those_of_torch(
  tmp_path,
):
  hf.save(reference.CONFIG, reference.make_params(), tmp_path)
  model = hf_folders.open_folder(tmp_path)
  with torch.no_grad():
    expected = model(input_ids=torch.tensor(reference.TOKENS)).logits.numpy()
  np.testing.assert_allclose(
    reference.read_logits(), expected, rtol=1e-4, atol=1e-5
  )
  np.testing.assert_allclose(
    reference.compute_logits(), expected, rtol=1e-4, atol=1e-5
  )
