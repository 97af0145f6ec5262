#!/usr/bin/env bash
# Runs FedHAF's study on features of a ViT-Tiny and prints its table: four herding ratios, FedHAF without its second
# stage, and the paper's baselines on the same module, with its batch norms and dropout.
#
#   cargo build --release
#   tools/fedhaf-study.sh [--set data.path=... --set backbone.weights=...]
#
# Everything given goes to fedcast as it is. Runs stay below runs/fedhaf-study and are run again; the first one also
# computes the features, which all others find in a file.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fedcast=${FEDCAST:-$root/target/release/fedcast}
out=${OUT:-$root/runs/fedhaf-study}

run() { # label, then overrides
    local label=$1 folder=$out/${1//[^a-zA-Z0-9-]/}
    shift
    "$fedcast" run "$root/scenarios/studies/fedhaf-cifar100-vit-tiny.toml" -q --force -o "$folder" \
        --set cache.features=file --set "cache.folder=$out/features" "$@" > /dev/null
    python3 - "$label" "$folder/summary.json" <<'PYTHON'
import json, sys
label, file = sys.argv[1:]
summary = json.load(open(file))
accuracy, wall = summary["accuracy"], summary["wall"]
down, up = ([summary["bytes"].get(way, {}).get("delivered", {}).get("bytes", 0) / 1e6]
            for way in ("down", "up"))
memory = summary.get("memory", {}).get("bytes", 0) / 1e6
seconds = wall["total_s"] - wall["cache"]["compute_s"]
print(f"| {label} | {100 * accuracy['average_incremental_micro']:.1f} | {100 * accuracy['faa']:.1f} | "
      f"{100 * accuracy['forgetting_from_best']:.1f} | {down[0]:.0f} / {up[0]:.0f} | {memory:.1f} | "
      f"{summary['virtual_s']:.0f} | {seconds:.0f} |")
PYTHON
}

echo "| method | A-bar % | A_T % | forgetting | MB down / up | MB kept by all clients | virtual s | wall s |"
echo "|---|---|---|---|---|---|---|---|"
for retention in 1.0 0.2 0.05 0.01; do
    run "FedHAF, $retention of each class kept" --set "method.retention=$retention" "$@"
done
run "FedHAF, no second stage" --set method.lambda_fd=0 --set method.lambda_fb=0 "$@"
like='train="module", norms="settled", dropout=0.1'
run "FedLwF-2T" --set "method={name=\"fedlwf-2t\", old_logits=\"keep\", $like}" "$@"
run "FedLwF-2T, cross-entropy of weight 1" \
    --set "method={name=\"fedlwf-2t\", old_logits=\"keep\", alpha=1.0, gamma=0.34, $like}" "$@"
run "FedProx" --set "method={name=\"fedprox\", old_logits=\"keep\", $like}" "$@"
run "FedAvg" --set "method={name=\"fedavg\", old_logits=\"keep\", $like}" "$@"
run "oracle" --set "method={name=\"oracle\", site=\"clients\", $like}" "$@"
run "FedAvg, outputs of a task among themselves" --set "method={name=\"fedavg\", $like}" "$@"
run "FedAvg upon the module, by batches" --set 'method={name="fedavg", train="module", old_logits="keep"}' "$@"
