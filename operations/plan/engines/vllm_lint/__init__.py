"""vLLM's words: its vocabularies by release, its values as its parser reads them, and what people paid days for."""
