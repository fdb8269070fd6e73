"""What every engine's words are judged with (operations/plan/judge.py); an engine's own rules are its class's."""
