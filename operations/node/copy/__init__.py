"""Models and images from node to node and from the Hub: what arrives is proven before it gets its name."""
