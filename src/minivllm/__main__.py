"""``python -m minivllm``."""

from minivllm.cli import main

main()
