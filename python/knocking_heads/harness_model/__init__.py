"""lm-evaluation-harness on the engine: a child process that scores, a language model in front."""
