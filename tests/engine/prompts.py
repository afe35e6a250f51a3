"""32 prompts as they come in real life: short and long, English, Chinese, code, with shared prefixes, and identical ones."""

from pathlib import Path

_LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text()
_SYSTEM = (
    "You are a careful assistant. Answer in one short paragraph, name what you are not sure of, and never invent a "
    "source. If the question has a false premise, say so first. Keep numbers in digits and units in SI."
)


def _chat(user: str, system: str = "You are a helpful AI assistant named SmolLM, trained by Hugging Face") -> str:
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"


SHORT = ["Hello", "The capital of France is", "1, 2, 3, 5, 8, 13,", "Once upon a time", "Water boils at", "a"]
CHAT = [_chat("Why is the sky blue?"), _chat("Write a haiku about the sea."), _chat("What is 17 + 25?")]
CHINESE = ["人工智能的发展", _chat("请用一句话介绍北京。"), "调度器先处理正在运行的请求，再处理等待中的请求。因此"]
CODE = [
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "import numpy as np\n\ndef softmax(x):\n    ",
    "SELECT name, COUNT(*) FROM orders WHERE",
    "for i in range(10):\n    print(i)\nfor i in range(10):\n    print(i)\nfor i in range(10):\n",
]
LONG = [
    _LICENSE[start : start + length] for start, length in ((600, 900), (3_000, 1_300), (5_000, 700), (7_000, 1_100))
]
SHARED = [
    _chat(question, _SYSTEM)
    for question in (
        "How far is the moon?",
        "Who wrote Hamlet?",
        "Why do leaves fall?",
        "What is a prime number?",
        "How does a bicycle stay upright?",
        "What is the speed of light?",
    )
]
IDENTICAL = [_chat("Tell me about the KV cache.")] * 4 + [_LICENSE[600:1_000]] * 2
PROMPTS = [*SHORT, *CHAT, *CHINESE, *CODE, *LONG, *SHARED, *IDENTICAL]
assert len(PROMPTS) == 32
