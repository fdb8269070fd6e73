#!/bin/sh
# `walls.sh load | problem | raise | drop`: Tandem's table of nftables on this node. No other table is touched.
set -eu
rules=${0%/*}/tandem.nft
mark=${TANDEM_RUN:-/run/tandem}/walls

# The rules that lie here and those that are in force: a change to either is seen, by whatever hand. A control group that
# is gone, and made anew under its name, shows as a number in the rule that meant the old one.
state() {
    { cat "$rules" && nft --stateless list table inet tandem; } 2>/dev/null | sha256sum
}

problem() {
    if ! nft list table inet tandem >/dev/null 2>&1; then
        echo "the walls do not stand: nftables has no table \`tandem\` (systemctl status tandem-walls)"
    elif [ "$(state)" != "$(cat "$mark" 2>/dev/null)" ]; then
        echo "the walls are not as planned: the table \`tandem\` or $rules was changed (systemctl reload tandem-walls)"
    fi
}

case $1 in
load)
    # One transaction: what was in force is, until all of it is replaced.
    nft --file "$rules"
    mkdir -p "${mark%/*}"
    state >"$mark"
    ;;
problem)
    problem
    ;;
raise)
    # Puts up again what somebody has taken down (`nft flush ruleset`); says why it can't.
    [ -z "$(problem)" ] || systemctl reload-or-restart tandem-walls.service >/dev/null 2>&1 || true
    problem
    ;;
drop)
    rm -f "$mark"
    nft delete table inet tandem 2>/dev/null || ! nft list table inet tandem >/dev/null 2>&1
    ;;
esac
