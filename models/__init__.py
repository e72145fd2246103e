"""Decoders in Flax Linen: model, sharding, tokenizers and file formats.

`README.md` in this folder lists the modules.
"""
