# What `tandem init` looks at on a node, one line each. It changes nothing.
say() { printf 'tandem:%s\n' "$*"; }
say "host $(uname -n)"
say "id $(cat /etc/machine-id 2>/dev/null)"
say "product $(cat /sys/class/dmi/id/product_name 2>/dev/null)"
say "mib $(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo)"
say "disk $(df -Pk "$HOME" | awk 'NR == 2 {print int($4 / 1048576)}')"
set -- ${SSH_CONNECTION:-}
say "in ${3:-}"
for net in /sys/class/net/*; do
    driver=$(readlink "$net/device/driver" 2>/dev/null) || driver=
    say "net ${net##*/} $(cat "$net/carrier" 2>/dev/null || echo 0) ${driver##*/}"
done
ip -o addr show | while read -r _ device family address _; do say "addr $device $family $address"; done
if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then say "sudo yes"; else say "sudo no"; fi
