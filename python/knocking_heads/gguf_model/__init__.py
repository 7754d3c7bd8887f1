"""A plain Hugging Face folder as one GGUF file: architecture, tensors, tokenizer, writer."""
