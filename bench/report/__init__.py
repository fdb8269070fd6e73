"""A run as a page that opens without a network, as Markdown and as CSV."""
