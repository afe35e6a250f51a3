"""2-prefix-match: hash chains, hits, and what is evicted first."""
