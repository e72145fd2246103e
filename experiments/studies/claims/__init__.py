"""A study that tests claims of papers: `python -m experiments.studies.claims`.

claim        data types: a claim, a comparison of its test, the verdict
definitions  all claims
settings     base policies and sizes that all claims share
plots        functions that draw a claim's figure
results      the results as a Markdown table, pictures and a JSON file
"""
