"""What is right: the tests of the exercises, the rubrics of the questions, and where a submission looks for answers.

Entrances: `exercises` (code), `suggestions` (prose), `honesty`; `points` says what the 10 points are for.
"""
