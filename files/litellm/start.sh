#!/bin/sh
# Runs in the container. The key goes from its file to the environment here: in argv or in the unit all could read it.
set -eu
# What it writes of keys' use is its own.
umask 077
LITELLM_MASTER_KEY=$(cat /secrets/master.key)
export LITELLM_MASTER_KEY
# Modules that lie here import each other by name.
cd /tandem
exec python3 serve.py --config /tandem/config.yaml --telemetry False
