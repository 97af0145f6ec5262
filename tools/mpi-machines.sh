#!/usr/bin/env bash
# Three machines on one: network and host-name namespaces on a bridge, with a root's rights. Runs the quickstart's federation on all of
# them over TCP and compares its digests with those of one process.
#
#   sudo tools/mpi-machines.sh [FEDCAST] [SCENARIO]
#
# FEDCAST is a program built with --features mpi (target/release/fedcast), SCENARIO a file (scenarios/quickstart.toml).
# Needs Open MPI, iproute2 and util-linux. Everything it makes is gone when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
fedcast=$(realpath "${1:-target/release/fedcast}")
scenario=$(realpath "${2:-scenarios/quickstart.toml}")
[ "$(id -u)" = 0 ] || { echo "namespaces need root" >&2; exit 1; }

tag=fc$$
work=$(mktemp -d)
keepers=()
clean() {
    for pid in "${keepers[@]}"; do kill "$pid" 2> /dev/null || true; done
    for n in 1 2 3; do ip netns del "$tag-$n" 2> /dev/null || true; done
    ip link del "$tag" 2> /dev/null || true
    rm -rf "$work"
}
trap clean EXIT

ip link add "$tag" type bridge
ip addr add 10.77.0.254/24 dev "$tag"
ip link set "$tag" up
for n in 1 2 3; do
    ip netns add "$tag-$n"
    ip link add "$tag-v$n" type veth peer name eth0 netns "$tag-$n"
    ip link set "$tag-v$n" master "$tag" up
    ip -n "$tag-$n" addr add "10.77.0.$n/24" dev eth0
    ip -n "$tag-$n" link set eth0 up
    ip -n "$tag-$n" link set lo up
    # A machine is a process that sleeps in namespaces of its own; others enter them.
    ip netns exec "$tag-$n" unshare --uts sh -c "hostname machine$n; echo \$\$ > $work/$n; exec sleep 3600" &
    keepers+=($!)
done
for n in 1 2 3; do
    until [ -s "$work/$n" ]; do sleep 0.05; done
done

# In the place of ssh: enters the machine of that address.
cat > "$work/rsh" << 'EOF'
#!/usr/bin/env bash
address=$1
shift
exec nsenter --net --uts --target "$(cat "$(dirname "$0")/${address##*.}")" sh -c "$*"
EOF
chmod +x "$work/rsh"

"$fedcast" run "$scenario" -q -o "$work/one" | grep '^digests' > "$work/one.txt"
nsenter --net --uts --target "$(cat "$work/1")" \
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun --host 10.77.0.1:1,10.77.0.2:1,10.77.0.3:1 --map-by ppr:1:node --bind-to none \
    --mca plm_rsh_agent "$work/rsh" --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
    "$fedcast" run "$scenario" --mpi -q -o "$work/three" | grep '^digests' > "$work/three.txt"
grep -A1 '"host"' "$work/three/manifest.json"
cat "$work/one.txt" "$work/three.txt"
cmp "$work/one.txt" "$work/three.txt" && echo "three machines came to the digests of one process"
