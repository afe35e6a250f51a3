"""What people get to see: the class on a page, the registrar's table, a student's feedback, the rows of `grade`.

Entrance: `report.write`.
"""
