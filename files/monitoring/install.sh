# The distribution's packages in "$@", behind "$1": a file that names those that could not be had. They begin to serve
# as soon as they are there, which Tandem's own units do in their place: units that nobody has yet are masked before.
# One that is there already is the owner's, and stays as it is.
set -u
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
refused=$1
shift
masked=""
for unit in prometheus prometheus-alertmanager; do
    if ! systemctl cat "$unit.service" >/dev/null 2>&1; then
        systemctl mask --quiet "$unit.service" || exit 1
        masked="$masked $unit"
    fi
done
# A deploy waits for this: for an apt of somebody else's and for a server that says nothing, but not for ever.
bounds="-o DPkg::Lock::Timeout=60 -o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15"
install() {
    apt-get install -y -qq --no-install-recommends $bounds "$@" >/dev/null
}
# Lists that come may be broken off, what is being installed may not.
if install "$@" || { timeout 90 apt-get update -qq $bounds && install "$@"; }; then
    rm -f "$refused"
    exit
fi
mkdir -p "${refused%/*}" && echo "$*" >"$refused"
# What did not come leaves no mask. What came without the others would serve by itself: its mask stays.
for unit in $masked; do
    command -v "$unit" >/dev/null || systemctl unmask --quiet "$unit.service"
done
exit 1
