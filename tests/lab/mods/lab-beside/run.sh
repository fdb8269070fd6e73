#!/bin/bash
# For the tests alone: a program beside the engine, as mods have them that act on what runs.
set -e
echo "lab-beside in $WORKSPACE_DIR"
nohup python3 -c '
import time
while True:
    open("/tmp/lab-beside", "w").write(str(time.time()))
    time.sleep(0.5)
' >/dev/null 2>&1 &
echo $! >/tmp/lab-beside.pid
