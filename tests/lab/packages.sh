#!/bin/sh
# Installs what the lab needs from Debian or Ubuntu, where it is not there yet; MACHINES=vm: virtual machines as well.
set -eu
wanted="systemd-container mmdebstrap util-linux e2fsprogs debian-archive-keyring iproute2 iputils-ping iptables nftables openssh-client python3-venv haproxy keepalived"
# Virtual machines of both architectures, and what runs the other one's programs while a disk is made for it.
[ "${MACHINES:-}" != vm ] || wanted="$wanted qemu-system-x86 qemu-system-arm qemu-utils arch-test binfmt-support qemu-user-static"
# Somebody's Docker is as good as Debian's.
command -v dockerd >/dev/null || wanted="$wanted docker.io"
# `tandem init` is tried against a real one.
command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || wanted="$wanted openssh-server"
# Reports are looked at in a real browser; Ubuntu's is a snap, and that test is left out there.
! grep -q '^ID=debian' /etc/os-release || wanted="$wanted chromium"

missing=""
for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "the lab boots hosts, which needs root, and these packages:$missing. Run it again with sudo" >&2
    exit 1
fi
echo "lab: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# A Docker that comes now shall not start here: the lab runs one of its own, while it builds.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
# A server of ssh that came for the tests lets nobody in after the next boot.
case "$missing" in *openssh-server*) systemctl disable ssh.service ssh.socket >/dev/null 2>&1 || : ;; esac
