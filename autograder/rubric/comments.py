from __future__ import annotations
def comment(suggestion, language): return ""
