#!/usr/bin/env bash
# The same bits on other processors: runs the quickstart (one round, one epoch) natively on every path of vector
# instructions and under user-mode emulation, prints the digests, and fails where two of them differ.
#
#   tools/other-cpus.sh [FEDCAST]
#
# FEDCAST is a program for this machine (target/release/fedcast; built where it is missing). What a row needs and is not
# here is said beside it, and no reason to fail:
#
#   Haswell    qemu-x86_64 (Debian: qemu-user or qemu-user-static): a processor with AVX2 and without AVX-512
#   Nehalem    the same: a processor without AVX2 and FMA, whose fused multiply-add is emulated; an hour or more, so it
#              runs where OTHER_CPUS=all asks for it
#   aarch64    qemu-aarch64 (the same), and FEDCAST_AARCH64, which names a program for it, such as the static one of
#              tools/release/build.sh; or else a C compiler (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross) and Rust's
#              standard library (rustup target add aarch64-unknown-linux-gnu)
#
# Emulation takes 20 to 100 times as long: minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

[ "$(uname -m)" = x86_64 ] || { echo "this script compares an x86-64 machine with others" >&2; exit 1; }
unset FEDCAST_ARITHMETIC
native=${1:-target/release/fedcast}
[ $# -gt 0 ] || [ -x "$native" ] || cargo build --release --bin fedcast
[ -x "$native" ] || { echo "$native: no such program" >&2; exit 2; }
native=$(realpath -- "$native")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wanted=
failed=0

row() { printf '%-22s %-18s %-18s %s\n' "$@"; }
missing() { row "$1" - - "not checked: $2"; }

# compare NAME COMMAND...: runs the quickstart with a program and holds its digests against the first ones.
compare() {
    local name=$1 begun digests
    shift
    begun=$(date +%s.%N)
    if ! "$@" run scenarios/quickstart.toml --set federation.rounds=1 --set client.epochs=1 \
        -q -o "$work/$name" > "$work/$name.txt" 2> "$work/$name.err"; then
        row "$name" - - "failed: $(tail -n 1 "$work/$name.err")"
        failed=1
        return
    fi
    digests=$(grep '^digests ' "$work/$name.txt" | grep -oE '[0-9a-f]{16}' | tr '\n' ' ')
    wanted=${wanted:-$digests}
    local note=
    if [ "$digests" != "$wanted" ]; then
        note=' differs'
        failed=1
    fi
    # shellcheck disable=SC2086
    row "$name" $digests "$(awk -v a="$begun" -v b="$(date +%s.%N)" 'BEGIN { printf "%.0f", b - a }')$note"
}

# emulator NAME: prints the program that emulates a processor, under either of its names.
emulator() { command -v "qemu-$1" || command -v "qemu-$1-static" || true; }

row path E N seconds
for path in avx512 avx2 portable; do
    # The program itself knows which paths the machine has.
    if FEDCAST_ARITHMETIC=$path "$native" doctor > "$work/doctor.txt" 2>&1; then
        FEDCAST_ARITHMETIC=$path compare "$path" "$native"
    elif grep -q 'lacks' "$work/doctor.txt"; then
        missing "$path" "this machine has no such instructions"
    else
        missing "$path" "$(head -n 1 "$work/doctor.txt")"
        failed=1
    fi
done

x86=$(emulator x86_64)
if [ -n "$x86" ]; then
    compare qemu-Haswell "$x86" -cpu Haswell "$native"
    if [ "${OTHER_CPUS:-}" = all ]; then
        compare qemu-Nehalem "$x86" -cpu Nehalem "$native"
    else
        missing qemu-Nehalem "takes an hour or more; OTHER_CPUS=all asks for it"
    fi
else
    missing qemu-Haswell "no qemu-x86_64 (Debian, Ubuntu: apt-get install qemu-user)"
fi

target=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc
arm=${FEDCAST_AARCH64:-}
aarch64=$(emulator aarch64)
if [ -z "$aarch64" ]; then
    missing qemu-aarch64 "no qemu-aarch64 (Debian, Ubuntu: apt-get install qemu-user)"
elif [ -n "$arm" ]; then
    compare qemu-aarch64 "$aarch64" -L /usr/aarch64-linux-gnu "$arm"
elif ! command -v "$compiler" > /dev/null; then
    missing qemu-aarch64 "no $compiler (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
elif [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    missing qemu-aarch64 "no standard library (rustup target add $target)"
else
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler CC_aarch64_unknown_linux_gnu=$compiler \
        cargo build --release --bin fedcast --target "$target" >&2
    compare qemu-aarch64 "$aarch64" -L /usr/aarch64-linux-gnu "target/$target/release/fedcast"
fi

exit "$failed"
