"""What the notebook 0-start-here asks: each answer is a run of the engine."""

from minivllm.lesson.question import Question

QUESTIONS: tuple[Question, ...] = ()
