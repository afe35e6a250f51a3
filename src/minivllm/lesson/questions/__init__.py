"""Every question of the course by name; a notebook's questions live in one module."""

from minivllm.lesson.question import Question
from minivllm.lesson.questions import budget_planner

QUESTIONS: dict[str, Question] = {question.name: question for question in budget_planner.QUESTIONS}
