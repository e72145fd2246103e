"""What a disk refuses while a run writes, said in one line."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from etils import epath

from experiments import mistakes

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
  """Writing inside may be refused.

  Args:
    workdir: of the run that writes.

  Raises:
    Ended: in place of what Python, Orbax or TensorStore raise then.
  """
  try:
    yield
  except Exception as error:
    reason = refusal(error)
    if not reason:
      raise
    raise mistakes.Ended(
      f"{workdir} cannot be written: {reason}. What was saved is whole; once "
      "that is mended, the same command goes on from the last checkpoint"
    ) from error


def refusal(error: BaseException | None) -> str:
  """Why the file system refused, in its own words; "" where it did not."""
  seen: list[BaseException] = []
  while error is not None and error not in seen:
    seen.append(error)
    for code in _REFUSALS:
      words = os.strerror(code)
      is_it = isinstance(error, OSError) and error.errno == code
      if is_it or words in str(error):
        return words
    error = error.__cause__ or error.__context__
  return ""
