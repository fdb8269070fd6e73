"""Images on this node: by content, by layer, and what has been read inside them."""
