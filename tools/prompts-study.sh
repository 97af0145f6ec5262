#!/usr/bin/env bash
# Runs the study of prompt methods and HGP and prints its table: four methods, two degrees of imbalance.
#
#   cargo build --release
#   tools/prompts-study.sh [--set data.path=... --set backbone.weights=...]
#
# Everything given goes to fedcast as it is. Runs stay below runs/prompts-study and are run again.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fedcast=${FEDCAST:-$root/target/release/fedcast}
out=${OUT:-$root/runs/prompts-study}

run() { # name, [method] as an inline table, learning rate
    local name=$1 method=$2 rate=$3
    shift 3
    for beta in 0.5 0.05; do
        "$fedcast" run "$root/scenarios/studies/prompts-cifar100-vit-tiny.toml" -q --force \
            -o "$out/$name-beta$beta" --set "method=$method" --set "client.optimiser.lr=$rate" \
            --set "partition.beta=$beta" "$@" > /dev/null
        python3 - "$name" "$beta" "$out/$name-beta$beta/summary.json" <<'PYTHON'
import json, sys
name, beta, file = sys.argv[1:]
summary = json.load(open(file))
accuracy, wall = summary["accuracy"], summary["wall"]
sent = [summary["bytes"][way]["delivered"]["bytes"] / 1e6 for way in ("down", "up")]
seconds = wall["total_s"] if isinstance(wall, dict) and "total_s" in wall else wall
print(f"| {name} | {beta} | {100 * accuracy['faa']:.2f} | "
      f"{100 * accuracy['average_incremental_micro']:.2f} | {100 * accuracy['forgetting_from_best']:.2f} | "
      f"{sent[0]:.1f} | {sent[1]:.1f} | {seconds} |")
PYTHON
    done
}

echo "| method | beta | A_T % | A-bar % | forgetting | MB down | MB up | wall |"
echo "|---|---|---|---|---|---|---|---|"
run hgp '{name="hgp", prompt_len=40}' 0.003 "$@"
run coda-prompt '{name="coda-prompt"}' 0.03 "$@"
run dualprompt '{name="dualprompt", g_len=2, e_len=5, pull_weight=1.0}' 0.03 "$@"
run l2p '{name="l2p", prompt_len=2, pull_weight=0.1}' 0.03 "$@"
