"""3-allocate-slots: blocks handed out and given back, and the gates before them."""
