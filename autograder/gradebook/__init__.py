"""What is kept, in nbgrader's database: states, decisions, settled notes. And what follows from it: a verdict.

Entrances: `entry.enter` writes what came of a submission, `verdict` says what makes it passed and final;
`preprocessors` are for nbgrader's own commands.
"""
