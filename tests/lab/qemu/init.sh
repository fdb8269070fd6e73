#!/bin/busybox sh
# The first process of a machine: loads what the disk needs, lays the lab's files over it, and hands over to systemd.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
# Asked whether a kernel runs at all (accelerator.py).
if grep -qw tandem.runs /proc/cmdline; then
    echo "tandem: this kernel runs"
    poweroff -f
fi
while read -r module; do
    insmod "/modules/$module"
done </modules/order
tries=0
until [ -b /dev/vda ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "tandem: no disk after 60 s"; poweroff -f; }
    sleep 0.1
done
mount -t ext4 /dev/vda /root || { echo "tandem: the disk can't be mounted"; poweroff -f; }
# Once for each new set of them: what a deploy made of these files stays.
if ! cmp -s /overlay.digest /root/etc/tandem-lab.digest; then
    cp -a /overlay/. /root/ && cp /overlay.digest /root/etc/tandem-lab.digest
fi
for each in dev proc sys; do
    mount --move /$each /root/$each
done
exec switch_root /root /sbin/init
