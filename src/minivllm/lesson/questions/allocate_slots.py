"""What the notebook 3-allocate-slots asks: each answer is a run of the engine."""

from minivllm.lesson.question import Question

QUESTIONS: tuple[Question, ...] = ()
