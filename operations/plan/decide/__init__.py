"""What a deploy does about what it has seen: values to print, to test and to carry out, by nobody here."""
