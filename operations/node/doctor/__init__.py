"""What the doctor looks at on a node. Nothing here changes anything."""
