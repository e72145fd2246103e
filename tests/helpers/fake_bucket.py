"""A bucket in memory, which stands where `epath` would ask fsspec for one."""

import io
import pathlib

import fsspec


class Bucket(fsspec.AbstractFileSystem):
  """Objects by name: no folders, no appending, no renaming."""

  protocol = ("gs", "gcs")
  cachable = False

  def __init__(self):
    super().__init__()
    self.objects: dict[str, bytes] = {}
    self.uploads: list[tuple[str, bytes]] = []

  def ls(self, path, detail=True, **_):
    path = self._strip_protocol(path)
    result = {}
    for name, content in self.objects.items():
      if name == path:
        result[name] = {"name": name, "size": len(content), "type": "file"}
      elif name.startswith(f"{path}/" if path else ""):
        child, _, deeper = name[len(path) :].lstrip("/").partition("/")
        child = f"{path}/{child}".lstrip("/")
        kind, size = ("directory", 0) if deeper else ("file", len(content))
        result[child] = {"name": child, "size": size, "type": kind}
    if not result:
      raise FileNotFoundError(path)
    return list(result.values()) if detail else list(result)

  def _open(self, path, mode="rb", **_):
    path = self._strip_protocol(path)
    if mode == "wb":
      return _Upload(self, path)
    if mode != "rb":
      raise NotImplementedError(f"objects are not opened as {mode!r}")
    if path not in self.objects:
      raise FileNotFoundError(path)
    return io.BytesIO(self.objects[path])

  def rm_file(self, path):
    path = self._strip_protocol(path)
    if path not in self.objects:
      raise FileNotFoundError(path)
    del self.objects[path]

  def copied_to(self, folder: pathlib.Path) -> pathlib.Path:
    """The same files on disk, for readers that know no bucket."""
    for name, content in self.objects.items():
      path = folder / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(content)
    return folder

  def take(self, folder: pathlib.Path, name: str) -> str:
    """The files of a folder, under a name in the bucket."""
    for path in sorted(folder.rglob("*")):
      if path.is_file():
        key = f"{name}/{path.relative_to(folder)}"
        self.objects[key] = path.read_bytes()
    return f"gs://{name}"


class _Upload(io.BytesIO):
  """An object appears when it is closed."""

  def __init__(self, bucket, name):
    super().__init__()
    self._bucket, self._name = bucket, name

  def close(self):
    if not self.closed:
      self._bucket.objects[self._name] = self.getvalue()
      self._bucket.uploads.append((self._name, self.getvalue()))
    super().close()
