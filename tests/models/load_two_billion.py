"""Measures the memory that loading two billion parameters takes.

  python tests/models/load_two_billion.py FOLDER

Makes a Llama of 2.0e9 parameters in bfloat16 in FOLDER, several shards of
random numbers, unless it is there; needs 4 GB of disk. A fresh process then
loads it and prints size, seconds, and the peak of its anonymous memory
(RssAnon; on CPU the device arrays are in it) relative to the size.

Measured on two shared CPU cores: 16 to 29 s, and 1.10 of the size.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import threading
import time

import jax
import ml_dtypes
import numpy as np
import safetensors.numpy

from models import hf

LAYERS, WIDTH, MLP, HEADS, KV_HEADS = 32, 2048, 8192, 16, 8
VOCAB = 32_001
LAYERS_PER_SHARD = 8
CONFIG = {
  "model_type": "llama",
  "vocab_size": VOCAB,
  "hidden_size": WIDTH,
  "intermediate_size": MLP,
  "num_hidden_layers": LAYERS,
  "num_attention_heads": HEADS,
  "num_key_value_heads": KV_HEADS,
  "rope_theta": 500000.0,
  "torch_dtype": "bfloat16",
}
LIMIT = 1.3


def make(folder: pathlib.Path) -> None:
  """Writes the folder shard by shard, never holding more than one."""
  folder.mkdir(parents=True)
  draws = np.random.default_rng(0)
  head = WIDTH // HEADS
  shapes = {
    "input_layernorm": (WIDTH,),
    "post_attention_layernorm": (WIDTH,),
    "self_attn.q_proj": (HEADS * head, WIDTH),
    "self_attn.k_proj": (KV_HEADS * head, WIDTH),
    "self_attn.v_proj": (KV_HEADS * head, WIDTH),
    "self_attn.o_proj": (WIDTH, HEADS * head),
    "mlp.gate_proj": (MLP, WIDTH),
    "mlp.up_proj": (MLP, WIDTH),
    "mlp.down_proj": (WIDTH, MLP),
  }

  def numbers(shape: tuple[int, ...]) -> np.ndarray:
    # Random signs and fractions below 1/32: no infinity, no NaN.
    bits = draws.integers(0, 1 << 16, shape, np.uint16) & 0x807F | 0x3C80
    return bits.view(ml_dtypes.bfloat16)

  shards = [
    {
      f"model.layers.{layer}.{name}.weight": shape
      for layer in range(first, first + LAYERS_PER_SHARD)
      for name, shape in shapes.items()
    }
    for first in range(0, LAYERS, LAYERS_PER_SHARD)
  ]
  shards[0]["model.embed_tokens.weight"] = (VOCAB, WIDTH)
  shards[-1] |= {
    "model.norm.weight": (WIDTH,),
    "lm_head.weight": (VOCAB, WIDTH),
  }
  where = {}
  for number, shard in enumerate(shards, 1):
    file = f"model-{number:05}-of-{len(shards):05}.safetensors"
    safetensors.numpy.save_file(
      {name: numbers(shape) for name, shape in shard.items()}, folder / file
    )
    where |= dict.fromkeys(shard, file)
  index = {"metadata": {}, "weight_map": where}
  (folder / "model.safetensors.index.json").write_text(json.dumps(index))
  (folder / "config.json").write_text(json.dumps(CONFIG))


def anonymous() -> int:
  """Bytes of this process's anonymous memory."""
  status = pathlib.Path("/proc/self/status").read_text()
  line = next(x for x in status.splitlines() if x.startswith("RssAnon"))
  return int(line.split()[1]) * 1024


def measure(folder: pathlib.Path) -> None:
  """Loads the folder and prints what it took."""
  done = threading.Event()
  peak = [anonymous()]

  def sample() -> None:
    while not done.wait(0.002):
      peak[0] = max(peak[0], anonymous())

  sampler = threading.Thread(target=sample)
  sampler.start()
  start = time.perf_counter()
  _, params = hf.load(folder, dtype="bfloat16")
  seconds = time.perf_counter() - start
  done.set()
  sampler.join()
  leaves = jax.tree.leaves(params)
  size = sum(leaf.nbytes for leaf in leaves)
  count = sum(leaf.size for leaf in leaves)
  kernel = np.asarray(params["layers"]["mlp"]["down"]["kernel"][LAYERS - 1])
  last = sorted(folder.glob("*.safetensors"))[-1]
  with safetensors.safe_open(last, framework="numpy") as file:
    name = f"model.layers.{LAYERS - 1}.mlp.down_proj.weight"
    assert np.array_equal(kernel, file.get_tensor(name).T)
  ratio = peak[0] / size
  print(
    f"{count / 1e9:.2f}e9 parameters, {size / 1e9:.2f} GB, {seconds:.1f} s, "
    f"peak anonymous {peak[0] / 1e9:.2f} GB = {ratio:.3f} of the size"
  )
  assert ratio < LIMIT


if __name__ == "__main__":
  place = pathlib.Path(sys.argv[1])
  if sys.argv[2:] == ["measure"]:
    measure(place)
  else:
    if not place.exists():
      make(place)
    command = [sys.executable, __file__, str(place), "measure"]
    sys.exit(subprocess.run(command).returncode)
