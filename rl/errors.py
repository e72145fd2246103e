"""The exception of everything that this project refuses.

A `UsageError` says that a value, a file or a combination of parts cannot be
used. All other exceptions that leave a function of this project are bugs, of
the project or of code that a user adds, such as a transform: nothing catches or
translates them, so that they keep their type, message and traceback.
"""


class UsageError(ValueError):
  """A value, a file or a combination of parts is refused.

  The message has full sentences: what is wrong, what is allowed, where possible
  with the nearest valid choice, and what to do. It is shown alone, without the
  type and the place of the exception.
  """
