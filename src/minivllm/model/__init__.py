"""A Llama and all that comes with it: where its files are, what is in them, its tokenizer, the model itself."""
