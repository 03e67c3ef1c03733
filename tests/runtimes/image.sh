#!/bin/sh
# Writes a docker archive with an image of busybox alone, for pods and containers, without any network.
#
#   image.sh NAME:TAG OUT.tar COMMAND...
set -eu
name=$1 out=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/bin" "$work/root/proc" "$work/root/dev" "$work/root/sys" "$work/root/etc" "$work/root/tmp"
cp "$(command -v busybox)" "$work/root/bin/busybox"
for applet in sh ip ping sleep cat nc wget; do ln -s busybox "$work/root/bin/$applet"; done
tar -C "$work/root" --owner=0 --group=0 -cf "$work/layer.tar" .
digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
command=$(printf '"%s",' "$@")
printf '{"architecture":"amd64","os":"linux","config":{"Cmd":[%s],"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "${command%,}" "$digest" >"$work/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" >"$work/manifest.json"
tar -C "$work" -cf "$out" manifest.json config.json layer.tar
