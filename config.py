"""What pyinfra reads before an inventory: nodes that do not answer are told, and do not end the run by themselves."""

import sys

from operations.runner import frames, given, reach

given.check_words(sys.argv)
reach.install()
frames.install()
