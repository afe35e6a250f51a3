"""What a notebook looks at: state copied out of live objects, and pictures of it."""
