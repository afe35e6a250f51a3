"""What the notebook 4-preemption asks: each answer is a run of the engine."""

from minivllm.lesson.question import Question

QUESTIONS: tuple[Question, ...] = ()
