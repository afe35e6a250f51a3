"""What the notebook 5-on-the-gpu asks: each answer is a run of the engine."""

from minivllm.lesson.question import Question

QUESTIONS: tuple[Question, ...] = ()
