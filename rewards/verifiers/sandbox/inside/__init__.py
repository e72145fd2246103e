"""Modules of the sandbox's processes, which use only the standard library.

`contain` makes the sandbox, by means of `libc` (calls of the C library) and
`filters` (a filter of system calls). In the sandbox `tester` runs the tests,
whose assertions `assertions` observes, and `program` loads the program. The
process that calls `sandbox.run` imports none of these modules.
"""
