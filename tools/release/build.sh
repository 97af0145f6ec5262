#!/usr/bin/env bash
# Builds archives of static Linux binaries: tools/release/build.sh [TARGET ...], by default for x86-64 and aarch64.
# Needs the targets (`rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl`) and a cross compiler for
# the few C sources of dependencies: `pip install cargo-zigbuild ziglang`. The archives lie in $CARGO_TARGET_DIR/archives
# (target/archives): program, license, readme, changelog, man pages, completions, scenarios, and a SHA-256 digest beside.
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=("$@")
[ $# -gt 0 ] || targets=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
build=${CARGO_TARGET_DIR:-target}
version=$(sed -n '/^\[package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
out=$build/archives
mkdir -p "$out"

command -v cargo-zigbuild >/dev/null || { echo "cargo-zigbuild is missing: pip install cargo-zigbuild ziglang" >&2; exit 1; }
for target in "${targets[@]}"; do
    cargo zigbuild --release --locked --bin fedcast --target "$target"
done

# Pages and completions are the same for all; a binary of this machine writes them.
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
host=
for target in "${targets[@]}"; do
    if "$build/$target/release/fedcast" --version >/dev/null 2>&1; then host=$build/$target/release/fedcast; fi
done
if [ -n "$host" ]; then
    "$host" man --out "$pages/man"
    mkdir "$pages/completions"
    for shell in bash zsh fish; do "$host" completions "$shell" > "$pages/completions/fedcast.$shell"; done
else
    echo "no binary runs here: archives are without man pages and completions" >&2
fi

# The same sources give the same archive: names sorted, one time, no owner.
time=$(git log -1 --format=%ct 2>/dev/null || echo 0)
for target in "${targets[@]}"; do
    name=fedcast-$version-$target
    rm -rf "${out:?}/$name"
    mkdir "$out/$name"
    cp "$build/$target/release/fedcast" LICENSE README.md CHANGELOG.md "$out/$name"
    cp -r scenarios "$out/$name"
    cp -r "$pages/." "$out/$name"
    tar -C "$out" --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner -c "$name" | gzip -n9 > "$out/$name.tar.gz"
    rm -rf "${out:?}/$name"
    (cd "$out" && sha256sum "$name.tar.gz" > "$name.tar.gz.sha256")
    ls -l "$out/$name.tar.gz"
done
