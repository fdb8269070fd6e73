"""What pyinfra reads before an inventory: nodes that do not answer are told, and do not end the run by themselves."""

from operations import frames, reach

reach.install()
frames.install()
