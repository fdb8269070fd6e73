"""Which topology, executor and routing for a load: from own runs, else published tables, else an estimate."""
