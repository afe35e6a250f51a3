"""Every question of the course by name; a notebook's questions live in one module."""

from minivllm.lesson.question import Question
from minivllm.lesson.questions import allocate_slots, budget_planner, on_the_gpu, preemption, prefix_match, start_here

_NOTEBOOKS = (start_here, budget_planner, prefix_match, allocate_slots, preemption, on_the_gpu)
QUESTIONS: dict[str, Question] = {question.name: question for notebook in _NOTEBOOKS for question in notebook.QUESTIONS}
