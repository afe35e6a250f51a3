"""From solutions/ to the lesson that students get and that the gradebook knows.

Entrance: `publish`; `course` builds.
"""
