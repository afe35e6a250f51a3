"""Student code, apart from everything: the sandbox, the pipe, the clock, and the child that runs it.

Entrance: `cells.execute`, the tests of a notebook on what the student wrote.
"""
