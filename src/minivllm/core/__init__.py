"""The scheduler and the KV cache manager: plain Python, no torch, the decisions of vLLM v0.28.0.

Who owns what: the Scheduler owns the queues and the budget of a step, a Request its tokens and counters, the
KVCacheManager (through its single-type managers) the block tables, the BlockPool the blocks and their ref counts.
"""
