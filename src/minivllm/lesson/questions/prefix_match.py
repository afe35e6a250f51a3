"""What the notebook 2-prefix-match asks: each answer is a run of the engine."""

from minivllm.lesson.question import Question

QUESTIONS: tuple[Question, ...] = ()
