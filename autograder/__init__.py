"""How a submission becomes points. It stays with the instructor: in no wheel, on no student's disk."""
