"""The graded exercises' answers and hidden tests."""
