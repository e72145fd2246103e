"""What runs in the sandbox's own processes: the standard library only.

`contain` makes the sandbox, with `libc` and `filters`; in it `judge` runs the
tests, which call `program`. None of it is imported by the host.
"""
