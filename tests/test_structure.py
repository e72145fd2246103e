"""The house: imports point one way, files stay one idea, ruff is content."""

import ast
import importlib
import inspect
import pathlib
import re
import statistics
import subprocess
import sys

import pytest

from rl import methods

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("rl", "models", "rewards", "experiments")
PAGES = sorted(
  page
  for folder in (".", "docs", *PACKAGES)
  for page in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
)
MAY_IMPORT = {
  "rl": {"rl"},
  "models": {"models", "rl"},
  "rewards": {"rewards", "rl"},
  "experiments": set(PACKAGES),
}
# All that models know of rl: the interface, and how to refuse something.
RL_SEEN_BY_MODELS = {"rl", "rl.types", "rl.registry", "rl.UsageError"}
NOT_FOR_THE_CORE = {"ml_collections", "absl", "transformers", "orbax", "etils"}


def sources(package):
  return sorted((ROOT / package).rglob("*.py"))


def imports(path):
  """Dotted names of everything a file imports, wherever in it."""
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield node.module
      yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_point_one_way(package):
  for path in sources(package):
    for name in imports(path):
      top = name.split(".")[0]
      assert top not in PACKAGES or top in MAY_IMPORT[package], (path, name)
      if package == "rl":
        assert top not in NOT_FOR_THE_CORE, (path, name)
      if package == "models" and top == "rl":
        observed = ".".join(name.split(".")[:2])
        assert observed in RL_SEEN_BY_MODELS, (path, name)


# Folders of `experiments`, from the lowest layer to the highest. A file imports
# files of its own folder, and of folders in lower layers. "commands" are the
# files at the root, each like a folder of its own.
LAYERS = (
  ("cli",),
  ("data",),
  ("configs", "logging", "tasks"),
  ("training",),
  ("evaluation",),
  ("training_run",),
  ("aot", "prm", "report"),
  ("commands",),
  ("studies",),
  ("catalogue",),
)


def folder_in_experiments(name):
  """Returns the folder, or the command, of a dotted name, and its layer."""
  folder = name.split(".")[1]
  layers = {f: i for i, folders in enumerate(LAYERS) for f in folders}
  if (ROOT / f"experiments/{folder}.py").exists():
    return folder, layers["commands"]
  return folder, layers[folder]


def test_imports_of_experiments_point_down():
  wrong = []
  for path in sources("experiments"):
    parts = path.relative_to(ROOT).with_suffix("").parts
    if len(parts) == 2 and parts[1] == "__init__":
      continue
    folder, layer = folder_in_experiments(".".join(parts))
    for name in imports(path):
      if not name.startswith("experiments."):
        continue
      other_folder, other_layer = folder_in_experiments(name)
      if other_folder != folder and other_layer >= layer:
        wrong.append(f"{path.relative_to(ROOT)} imports {name}")
  assert not wrong, "\n".join(wrong)


def test_modules_import_each_other_in_no_circle():
  modules = {}
  for package in PACKAGES:
    for path in sources(package):
      name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
      modules[name.removesuffix(".__init__")] = path
  imported = {name: set() for name in modules}
  for name, path in modules.items():
    for node in ast.walk(ast.parse(path.read_text())):
      others = []
      if isinstance(node, ast.Import):
        others = [alias.name for alias in node.names]
      elif isinstance(node, ast.ImportFrom):
        # `from package import module` imports the module.
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        others = [one if one in modules else node.module for one in full]
      imported[name] |= {one for one in others if one in modules} - {name}
  # A module is removed once all that it imports are removed.
  while ready := [name for name, others in imported.items() if not others]:
    for name in ready:
      del imported[name]
    for others in imported.values():
      others.difference_update(ready)
  assert not imported, {name: sorted(imported[name]) for name in imported}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_inside_functions_have_a_reason(package):
  """A comment stands at the import, or on the line before it."""
  for path in sources(package):
    lines = path.read_text().splitlines()
    for function in ast.walk(ast.parse(path.read_text())):
      if not isinstance(function, ast.FunctionDef):
        continue
      for node in ast.walk(function):
        if isinstance(node, ast.Import | ast.ImportFrom):
          # Consecutive imports share a comment.
          first = node.lineno - 1
          while re.match(r"\s*(from|import) ", lines[first - 1]):
            first -= 1
          nearby = lines[first - 1 : node.end_lineno]
          assert any("#" in line for line in nearby), (path, node.lineno)


def test_the_core_is_light():
  """Importing rl pulls in no tokenizer, no dataset library, no config."""
  code = (
    "import sys, pkgutil, importlib, rl, rl.methods\n"
    "for package in (rl, rl.methods):\n"
    "  for m in pkgutil.iter_modules(package.__path__):\n"
    "    importlib.import_module(f'{package.__name__}.{m.name}')\n"
    "heavy = {'transformers', 'tensorflow_datasets', 'tensorflow', 'orbax',\n"
    "         'ml_collections', 'flax.nnx', 'matplotlib'}\n"
    "sys.exit(' '.join(heavy & set(sys.modules)) or None)\n"
  )
  done = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr


def test_ruff_is_content():
  for command in (["check"], ["format", "--check"]):
    done = subprocess.run(
      [sys.executable, "-m", "ruff", *command, "."],
      cwd=ROOT,
      capture_output=True,
      text=True,
    )
    assert done.returncode == 0, done.stdout


def test_importing_does_nothing():
  """At the top level stand definitions, constants and imports only."""
  for package in ("rl", "models", "rewards"):
    for path in sources(package):
      for node in ast.parse(path.read_text()).body:
        is_call = isinstance(node, ast.Expr) and isinstance(
          node.value, ast.Call
        )
        assert not is_call, (path, ast.unparse(node))
        assert not isinstance(node, ast.For | ast.While | ast.With), path


@pytest.mark.parametrize(
  ("code", "left_out"),
  [
    ("from experiments import run; run.main(['run', '--help'])", {"jax"}),
    (
      "import rl.methods, rl.step, rl.sampling.generation; rl.methods.names()",
      {"transformers", "tensorflow_datasets", "experiments", "orbax"},
    ),
    (
      "import experiments.training_run.loop",
      {"transformers", "tensorflow", "torch", "tensorboardX", "matplotlib"},
    ),
  ],
)
def test_what_is_asked_little_loads_little(code, left_out):
  requested = f"import sys; {code}; print(*sorted(sys.modules), sep=chr(10))"
  done = subprocess.run(
    [sys.executable, "-c", requested],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
  )
  assert not left_out & set(done.stdout.split())


# The promise to whoever builds on this: names and their parameters.
PUBLIC = {
  "rl.best_of_k": {
    "max_at_k_value": ["scores", "k", "valid"],
    "max_at_k_weights": ["scores", "k", "valid", "baseline"],
    "max_at_k_off_policy_value": ["scores", "log_ratios", "k", "valid"],
    "max_at_k_off_policy_weights": [
      "scores",
      "log_ratios",
      "k",
      "valid",
      "order",
    ],
    "pass_at_k_value": ["correct", "k", "valid"],
    "pass_at_k_advantages": ["scores", "k", "valid", "form", "key"],
  },
  "rl.credit": {
    "min_form_rewards": ["step_scores", "step_mask", "temperature"],
    "returns_to_go": ["rewards", "mask", "gamma", "reduce"],
    "gae": ["rewards", "values", "mask", "gamma", "lam", "segments"],
  },
  "rl.advantages": {
    "leave_one_out": ["scores", "valid"],
    "group_normalize": ["scores", "valid", "ddof", "eps"],
  },
  "rl.method_loss": {"prepare": ["method", "rollout", "state"]},
  "rl.methods": {"get": ["name", "hyper"], "names": []},
  "rl.metrics": {"pass_at_k_curve": ["correct", "ks", "valid"]},
  "models.transformer": {"logits": ["config", "params", "tokens", "mask"]},
  "models.hf": {
    "load": ["folder", "dtype", "mesh"],
    "save": [
      "config",
      "params",
      "folder",
      "tokenizer",
      "shard_bytes",
      "stops",
    ],
  },
}


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_public_names_keep_their_signatures(module):
  result = importlib.import_module(module)
  for name, parameters in PUBLIC[module].items():
    signature = inspect.signature(getattr(result, name))
    assert list(signature.parameters) == parameters, name


def code_lines(path):
  """Lines that are neither blank, nor comment, nor docstring."""
  text = path.read_text()
  documented = set()
  for node in ast.walk(ast.parse(text)):
    documentable = (ast.Module, ast.ClassDef, ast.FunctionDef)
    if isinstance(node, documentable) and ast.get_docstring(node):
      first = node.body[0]
      documented |= set(range(first.lineno, first.end_lineno + 1))
  return sum(
    bool(line.strip()) and not line.strip().startswith("#")
    for number, line in enumerate(text.splitlines(), 1)
    if number not in documented
  )


def test_the_core_stays_small_and_a_method_a_short_file():
  """Counts lines of code: the core under 3,950, a median method under 40."""
  core = [p for p in sources("rl") if "methods" not in p.parts]
  assert sum(map(code_lines, core)) < 3950
  files = [inspect.getsourcefile(methods.factory(n)) for n in methods.names()]
  assert statistics.median(code_lines(pathlib.Path(f)) for f in files) < 40


def text_of_page(page):
  """Returns a page without its blocks of code."""
  return re.sub(r"```.*?```", "", page.read_text(), flags=re.S)


def anchors_of(page):
  """Returns the anchors of the headings of a page."""
  return {
    re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
    for line in text_of_page(page).splitlines()
    if line.startswith("#")
  }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page))
def test_links_of_pages_lead_to_files_and_headings(page):
  for target in re.findall(r"\]\(([^)\s]+)\)", text_of_page(page)):
    if "://" in target:
      continue
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    assert file.exists(), target
    if anchor and file.suffix == ".md":
      assert anchor in anchors_of(file), target
