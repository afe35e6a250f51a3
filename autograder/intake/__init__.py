"""From files to notebooks to answers: where an answer stands, and what was odd about the way there.

Entrance: `intake.intake`, from a student's folder to notebooks that can be graded. Where an answer finds its place is
in `answers` (one cell), `pairing` (which cell is which), `transplant` (a notebook) and `elsewhere` (a submission).
"""
