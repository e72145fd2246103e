"""Decoders in Flax: the model, its sharding, tokenizers and file formats.

`README.md` in this folder lists the modules.
"""
