"""Results of transformers' decoder, computed in a process of its own.

  python transformers_reference.py GGUF_FILE PROMPTS_JSON GREEDY NEW_TOKENS OUT

Converting the file takes more memory than a worker of the suite should have.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers


def main(file, prompts, greedy, new_tokens, out):
  """Writes the logits of all prompts, and greedy tokens after the first ones.

  Args:
    file: the GGUF file.
    prompts: JSON file with the token ids of each prompt.
    greedy: number of prompts that are continued.
    new_tokens: number of tokens after each of them.
    out: file of the arrays "logits_I" `[length, vocabulary]` and "greedy_I".
  """
  file = pathlib.Path(file)
  model = transformers.AutoModelForCausalLM.from_pretrained(
    file.parent, gguf_file=file.name, dtype=torch.float32
  ).eval()
  ids = json.loads(pathlib.Path(prompts).read_text())
  rows = [torch.tensor([row]) for row in ids]
  arrays = {}
  with torch.no_grad():
    for i, row in enumerate(rows):
      arrays[f"logits_{i}"] = model(row).logits[0].numpy()
    for i, row in enumerate(rows[: int(greedy)]):
      text = model.generate(
        row,
        max_new_tokens=int(new_tokens),
        min_new_tokens=int(new_tokens),
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
      )
      arrays[f"greedy_{i}"] = text[0, row.shape[1] :].numpy()
  np.savez(out, **arrays)


if __name__ == "__main__":
  main(*sys.argv[1:])
