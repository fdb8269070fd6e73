# The distribution's packages in "$@". They begin to serve as soon as they are there, which Tandem's own units do in
# their place: units that nobody has yet are masked before. One that is there already is the owner's, and stays as it is.
set -u
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
masked=""
for unit in prometheus.service prometheus-alertmanager.service; do
    if ! systemctl cat "$unit" >/dev/null 2>&1; then
        systemctl mask --quiet "$unit" || exit 1
        masked="$masked $unit"
    fi
done
install() {
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
install "$@" && exit
apt-get update -qq && install "$@" && exit
# Nothing came, nothing stays.
[ -z "$masked" ] || systemctl unmask --quiet $masked
exit 1
