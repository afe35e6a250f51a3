"""4-preemption: who is preempted, what is kept and what is lost."""
