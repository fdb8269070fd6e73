"""The manual's generated pages: what the code says of itself, as Markdown."""
