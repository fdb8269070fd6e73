"""What this deployment gives: runs, figures, report, advice. It knows a deployment by its verbs alone."""
