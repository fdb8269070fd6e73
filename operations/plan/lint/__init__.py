"""What every engine's words are judged with, and the judgement (judge.py); an engine's own rules are its class's."""
