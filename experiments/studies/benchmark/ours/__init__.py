"""Programs of our side: each keeps code of this project loaded and compiled.

They serve `experiments.studies.benchmark.peers.protocol` and get the same job
as the programs of the peers (`experiments.studies.benchmark.peers`).
"""
