"""A notebook on its way to the grader: what of it is run, and what is wrong with it before it is handed in.

Entrances: `check.check_file`, for students; `cell_code.read`, which grading uses too.
"""
