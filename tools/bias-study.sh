#!/usr/bin/env bash
# Runs the study of federated bias and prints its table: three degrees of imbalance, and what is learnt, with and without
# rebalancing. Of a run: the entropy of clients' answers and the distance of their prototypes after the first local
# training, and the final accuracy.
#
#   cargo build --release
#   tools/bias-study.sh [--set seed.run=2 ...]
#
# BETAS names other degrees of imbalance. Everything given goes to fedcast as it is. Runs stay below runs/bias-study and
# are run again.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fedcast=${FEDCAST:-$root/target/release/fedcast}
out=${OUT:-$root/runs/bias-study}

run() { # name, beta, overrides
    local name=$1 beta=$2
    shift 2
    "$fedcast" run "$root/scenarios/studies/federated-bias.toml" -q --force -o "$out/$name-beta$beta" \
        --set "partition.beta=$beta" "$@" > /dev/null
    python3 - "$name" "$beta" "$out/$name-beta$beta/summary.json" <<'PYTHON'
import json, sys
name, beta, file = sys.argv[1:]
summary = json.load(open(file))
bias = summary["bias"]["mean"]
print(f"| {name} | {beta} | {bias['response_entropy']:.2f} | {bias['response_entropy_relative']:.2f} | "
      f"{bias['prototype_distance']:.2f} | {100 * summary['accuracy']['faa']:.1f} |")
PYTHON
}

echo "| learnt | beta | entropy, nats | of ln 10 | distance | final accuracy % |"
echo "|---|---|---|---|---|---|"
prompt=(--set method.train=prompt --set method.prompt_len=20 --set client.optimiser.lr=0.003)
for beta in ${BETAS:-0.5 0.1 0.05}; do
    run FT "$beta" --set method.rebalance=none "$@"
    run FT+CR "$beta" "$@"
    run Prompt "$beta" "${prompt[@]}" --set method.rebalance=none "$@"
    run Prompt+CR "$beta" "${prompt[@]}" "$@"
    run Head "$beta" --set method.train=head --set client.optimiser.lr=0.003 --set method.rebalance=none "$@"
done
