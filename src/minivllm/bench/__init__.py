"""What ``minivllm bench`` measures."""
