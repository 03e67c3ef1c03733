#!/bin/sh
# Turns fresh mount, network and PID namespaces into a world of its own, and holds them until stdin ends.
#
#   unshare --mount --net --pid --fork --kill-child sh world.sh [SOURCE=TARGET]... <pipe
#
# The world has the machine's programs (read only) and nothing else of its files: empty /run, /var/lib, /var/log,
# /etc/catena, /opt/cni/bin. Each SOURCE is bound to TARGET. Prints "ready" when done. As PID 1 this shell reaps
# orphans, as any init does; when it ends, the kernel ends everything in the world.
set -eu
root=/run
mount -t tmpfs -o mode=0755 world "$root"
cd "$root"
mkdir -p usr proc sys dev run/netns var/lib var/log var/tmp etc/catena tmp opt/cni/bin root old
chmod 1777 tmp var/tmp
ln -s ../run var/run
mount --rbind /usr usr
mount -o remount,bind,ro usr 2>/dev/null || true # locked mounts of a user namespace stay as they are
for folder in bin sbin lib lib32 lib64; do
    if [ -L "/$folder" ]; then
        cp -P "/$folder" "$folder"
    elif [ -d "/$folder" ]; then
        mkdir "$folder"
        mount --rbind "/$folder" "$folder"
    fi
done
mount --rbind /dev dev
mount -t sysfs sysfs sys 2>/dev/null || mount --rbind /sys sys
mount -t proc proc proc 2>/dev/null || mount --rbind /proc proc
for file in passwd group nsswitch.conf ld.so.cache ld.so.conf ld.so.conf.d alternatives iproute2 protocols services; do
    if [ -e "/etc/$file" ]; then cp -R -P "/etc/$file" etc/; fi
done
for bind in "$@"; do
    source=${bind%%=*}
    target=${bind#*=}
    if [ -d "$source" ]; then
        mkdir -p ".$target"
    else
        mkdir -p ".$(dirname "$target")"
        : >".$target"
    fi
    mount --rbind "$source" ".$target"
done
pivot_root . old
cd /
umount -l /old
rmdir /old
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad # see World::pod
ip link set lo up
exec 3<&0
cat <&3 >/dev/null &
echo ready
exec >/dev/null
wait
