"""What a disk refuses while a run reads and writes, said in one line."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from etils import epath

from experiments.cli import errors

# No room, no right, no answer: nothing that the code could mend.
_REFUSALS = (
  errno.ENOSPC,
  errno.EDQUOT,
  errno.EROFS,
  errno.EACCES,
  errno.EPERM,
  errno.EIO,
  errno.ENOTDIR,
  errno.EISDIR,
  errno.ENAMETOOLONG,
)


@contextlib.contextmanager
def told(workdir: epath.PathLike) -> Iterator[None]:
  """Files may be refused inside.

  Args:
    workdir: of the run.

  Raises:
    Ended: in place of what Python, Orbax or TensorStore raise then.
  """
  try:
    yield
  except Exception as error:
    reason, file = _refused(error)
    if not reason:
      raise
    raise errors.Ended(
      f"{file or workdir}: {reason}. What was saved in {workdir} is whole; "
      "once that is mended, the same command goes on from the last checkpoint"
    ) from error


def _refused(error: BaseException | None) -> tuple[str, str]:
  """Why the file system refused, in its own words, and which file; or ""."""
  seen: list[BaseException] = []
  while error is not None and error not in seen:
    seen.append(error)
    for code in _REFUSALS:
      words = os.strerror(code)
      is_it = isinstance(error, OSError) and error.errno == code
      if is_it or words in str(error):
        return words, str(getattr(error, "filename", None) or "")
    error = error.__cause__ or error.__context__
  return "", ""
