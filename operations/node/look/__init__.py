"""What is asked of a node as a whole: by a deploy, by a person, by a bench."""
