"""What tests of several rooms need: free ports, waiting, servers in this process."""
