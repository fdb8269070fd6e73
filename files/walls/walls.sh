#!/bin/sh
# `walls.sh load | problem | raise | drop`: Tandem's table of nftables on this node, and the routes beside it. No other
# table is touched.
set -eu
rules=${0%/*}/tandem.nft
routes=${0%/*}/routes
mark=${TANDEM_RUN:-/run/tandem}/walls
# Behind every other route. systemd-networkd takes away what it has not set, unless it is said to be the kernel's.
last="proto kernel metric 4000000000"

# The rules that lie here and those that are in force: a change to either is seen, by whatever hand. A control group that
# is gone, and made anew under its name, shows as a number in the rule that meant the old one.
state() {
    { cat "$rules" "$routes" && nft --stateless list table inet tandem; } 2>/dev/null | sha256sum
}

# `replace` or `del`: the routes on standard input, TYPE PREFIX and where.
route() {
    while read -r type prefix where; do
        # shellcheck disable=SC2086
        ip route "$1" "$type" "$prefix" $where $last || [ "$1" = del ]
    done
}

lost_route() {
    while read -r type prefix where; do
        # shellcheck disable=SC2086
        [ -n "$(ip route show exact "$prefix" type "$type" $where proto kernel)" ] || { echo "$type $prefix" && break; }
    done <"$routes"
}

problem() {
    if ! nft list table inet tandem >/dev/null 2>&1; then
        echo "the walls do not stand: nftables has no table \`tandem\` (systemctl status tandem-walls)"
    elif [ "$(state)" != "$(cat "$mark" 2>/dev/null)" ]; then
        echo "the walls are not as planned: the table \`tandem\` or $rules was changed (systemctl reload tandem-walls)"
    elif lost=$(lost_route) && [ -n "$lost" ]; then
        echo "the walls are not as planned: the route \`$lost\` is gone (systemctl reload tandem-walls)"
    fi
}

case $1 in
load)
    # One transaction: what was in force is, until all of it is replaced.
    nft --file "$rules"
    mkdir -p "${mark%/*}"
    route replace <"$routes"
    # Those of an older plan. What is in both is never away.
    [ ! -e "$mark.routes" ] || grep -vxFf "$routes" "$mark.routes" | route del 2>/dev/null
    cp "$routes" "$mark.routes"
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
    [ ! -e "$mark.routes" ] || route del <"$mark.routes" 2>/dev/null
    rm -f "$mark" "$mark.routes"
    nft delete table inet tandem 2>/dev/null || ! nft list table inet tandem >/dev/null 2>&1
    ;;
esac
