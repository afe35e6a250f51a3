"""A whole class: a worker for each submission, the class's lock, the demo, the doctor.

Entrance: `classroom.grade_class`; what a worker does is in `worker` and `submission`.
"""
