#!/bin/sh
# `firewall.sh load | problem | raise | drop`: Tandem's table of nftables on this node, and the routes beside it. No
# other table is touched.
set -eu
rules=${0%/*}/tandem.nft
routes=${0%/*}/routes
mark=${TANDEM_RUN:-/run/tandem}/firewall
again='systemctl reload tandem-firewall'
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

# Whether the table in force has another spec than the rules that lie here.
is_another() {
    nft list table inet tandem 2>/dev/null | grep -F 'comment "' | grep -qvF "$(grep -F 'comment "' "$rules")"
}

problem() {
    if ! nft list table inet tandem >/dev/null 2>&1; then
        echo "Tandem's firewall is not in force: nftables has no table \`tandem\` (systemctl status tandem-firewall)"
    elif [ "$(state)" != "$(cat "$mark" 2>/dev/null)" ]; then
        echo "Tandem's firewall is not as planned: the table \`tandem\` or $rules was changed ($again)"
    elif lost=$(lost_route) && [ -n "$lost" ]; then
        echo "Tandem's firewall is not as planned: the route \`$lost\` is gone ($again)"
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
    [ -z "$(problem)" ] || systemctl reload-or-restart tandem-firewall.service >/dev/null 2>&1 || true
    problem
    ;;
drop)
    # What another version of Tandem has loaded since, under a unit of another name, stays with its routes.
    if ! is_another; then
        [ ! -e "$mark.routes" ] || route del <"$mark.routes" 2>/dev/null
        nft delete table inet tandem 2>/dev/null || ! nft list table inet tandem >/dev/null 2>&1
    fi
    rm -f "$mark" "$mark.routes"
    ;;
esac
