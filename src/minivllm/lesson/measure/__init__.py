"""Claims about performance, measured on the real model."""
