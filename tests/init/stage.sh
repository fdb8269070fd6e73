# Plays a laptop and two factory Sparks on one machine: namespaces of their own for network and mounts, real sshd each.
# stage.sh PLACE NODES COMMAND...   PLACE keeps keys, homes and folders from one run to the next. Root.
set -eu
place=$1 nodes=$2
shift 2
mkdir -p "$place/laptop/.ssh" "$place/etc" "$place/over"
# What is made in /etc and /run stays in here.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs "$place/over"
mkdir /run/sshd "$place/over/etc" "$place/over/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$place/over/etc,workdir=$place/over/work" /etc
chmod 700 "$place/laptop" "$place/laptop/.ssh"
mount --bind "$place/etc/passwd" /etc/passwd
mount --bind "$place/etc/shadow" /etc/shadow
mount --bind "$place/etc/hosts" /etc/hosts
mount -t tmpfs tmpfs /usr/local/bin
cp "$place/etc/sudo" /usr/local/bin/sudo
cp "$place/etc/visudo" /usr/local/bin/visudo
ip link set lo up
if [ -z "${NO_NETWORK:-}" ]; then
    ip link add office type veth peer name outside
    ip link set outside up
    ip link set office up multicast on
    ip addr add 10.77.0.1/24 dev office
    ip route add 224.0.0.0/4 dev office
fi
number=10
for node in $nodes; do
    number=$((number + 1))
    mkdir -p "$place/$node/sudoers.d" "$place/$node/home"
    chown 4711 "$place/$node/sudoers.d" "$place/$node/home"
    [ -e "$place/$node/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$place/$node/key"
    [ -e "$place/$node/id" ] || printf '%032x\n' "$number" >"$place/$node/id"
    ip addr add "10.77.0.$number/24" dev office
    listen=${LISTEN:-10.77.0.$number}
    unshare -m -u --propagation private sh -c '
        hostname "$2"
        mkdir -p /etc/sudoers.d
        mount --bind "$1/$2/sudoers.d" /etc/sudoers.d
        [ -e /etc/machine-id ] || : >/etc/machine-id
        mount --bind "$1/$2/id" /etc/machine-id
        mount --bind "$1/$2/home" "$1/home"
        exec "$4" -D -e -f /dev/null -h "$1/$2/key" -o "ListenAddress=$3" -o UsePAM=no -o PidFile=none \
            -o "AuthorizedKeysFile=.ssh/authorized_keys" -o StrictModes=no -o "SetEnv=PATH=/usr/local/bin:/usr/bin:/bin"
    ' sh "$place" "$node" "$listen" "$SSHD" 2>"$place/$node/log" </dev/null >/dev/null &
done
[ -z "${RESPONDER:-}" ] || "$PYTHON" "$RESPONDER" $nodes </dev/null >"$place/responder" 2>&1 &
for node in $nodes; do
    until grep -q "Server listening" "$place/$node/log" 2>/dev/null; do sleep 0.05; done
done
[ -z "${RESPONDER:-}" ] || until grep -q ready "$place/responder"; do sleep 0.05; done
exec env HOME="$place/laptop" USER=root "$@"
