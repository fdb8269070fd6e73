"""What every engine's words are judged with (recipes/judge.py); an engine's own rules are its class's."""
