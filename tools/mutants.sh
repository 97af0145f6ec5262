#!/usr/bin/env bash
# Mutates the library and says which mutants no unit test notices (cargo install --locked cargo-mutants).
#
#     tools/mutants.sh FLOOR FILTER [OPTION OF CARGO MUTANTS]...
#
# FLOOR is the highest floor of the library (numerics, learning, policy, methods, ...: see src/lib.rs) that is compiled, so
# that a mutant takes seconds: the mutants of a file need its own floor and those below. FILTER chooses unit tests, `.`
# all of them: 'ridge affinity', hepco. Options choose mutants: `--file src/numerics/ridge.rs`, `--shard 0/4`. The copy
# that is mutated lies in target/mutants, and what cargo mutants says of it in target/mutants/mutants.out.
set -euo pipefail
cd "$(dirname "$0")/.."
floor=$1 filter=$2
shift 2

# The house as src/lib.rs draws it, from the ground.
floors=$(sed -n 's/^\/\/! | \[`\([a-z_]*\)`\] |.*/\1/p' src/lib.rs | tac | tr '\n' ' ')
case " $floors " in
    *" $floor "*) kept=" ${floors%%"$floor"*}$floor " ;;
    *) echo "$floor is none of: $floors" >&2; exit 1 ;;
esac
copy=target/mutants
mkdir -p "$copy"
rm -rf "$copy/src" "$copy/tests" "$copy/scenarios" "$copy/tools"
mkdir -p "$copy/tests" "$copy/scenarios" "$copy/tools"
cp -r src "$copy/src"
cp -r tools/derive "$copy/tools/derive"
cp -r tests/vectors "$copy/tests/vectors"
cp -r scenarios/data "$copy/scenarios/data"
cp Cargo.lock "$copy/Cargo.lock"

# Only the floors that are needed, and no other program.
while IFS= read -r line; do
    module=$(sed -n 's/^pub mod \([a-z_]*\);$/\1/p' <<<"$line")
    case "$line" in '//!'*) continue ;; esac
    if [ -z "$module" ] || [[ "$kept" == *" $module "* ]]; then
        echo "$line"
    fi
done <src/lib.rs >"$copy/src/lib.rs"
rm -rf "$copy/src/main.rs"
sed -e '/^# Three programs hold/,$d' -e '/^readme = /d' -e 's/, "tools\/python"//' \
    -e 's/^opt-level = 1$/opt-level = 0/' -e 's/^debug = "line-tables-only"$/debug = false/' \
    Cargo.toml >"$copy/Cargo.toml"
# Examples of the documentation are not run: without them the library is compiled once.
printf '%s\n' '[lib]' 'doctest = false' >>"$copy/Cargo.toml"

tests=(--lib)
if [ "$filter" != . ]; then
    read -ra names <<<"$filter"
    tests+=(-- "${names[@]}")
fi
# Vectors lie beside the package, not beside its copy.
if [ -d ../shared/data/golden ]; then
    export FEDCAST_GOLDEN=${FEDCAST_GOLDEN:-$PWD/../shared/data/golden}
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/mutants/target}
cd "$copy"
exec cargo mutants --in-place --timeout "${TIMEOUT:-60}" --no-shuffle "$@" -- "${tests[@]}"
