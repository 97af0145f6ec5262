#!/usr/bin/env bash
# Checks fedcast on a machine with an NVIDIA GPU:
#
#   ops      every op and the transformer, composed on the GPU, against the kernels of the CPU and
#            against the golden vectors (where FEDCAST_GOLDEN names their folder);
#   methods  quickstart and a small run of every method and variant, on the CPU and on the GPU: the
#            same events, the same numbers when run twice, accuracies within the spread of seeds;
#   study    a study of HGP with 100 clients on the CPU and on the GPU in packs of 1, 8 and 32: the
#            same events, the accuracies side by side, seconds per round;
#   rates    the training steps of HGP and LoRA on ViT-B/16: images per second and share of the GPU's
#            own matrix products.
#
#   tools/gpu-check.sh [cuda:0 [PART...]]             builds (tools/cuda-toolkit.sh), then checks
#   tools/gpu-check.sh --build FOLDER                 only builds: puts four programs into FOLDER
#   tools/gpu-check.sh --run FOLDER [cuda:0 [PART...]]   only checks, with programs built elsewhere
#
# Ends with 0 when all agree, 1 when something does not, 20 when there is no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "gpu-check: $*"; }

build() { # FOLDER
    eval "$(tools/cuda-toolkit.sh --lean)"
    mkdir -p "$1"
    local place
    cargo build --release --features cuda --bin fedcast
    place=${CARGO_TARGET_DIR:-target}/release
    cp "$place/fedcast" "$1/fedcast"
    # Cargo names what it built: Executable ... (path)
    program() { sed -nE 's/^ *Executable .*\((.*)\)$/\1/p' | tail -n 1; }
    cp "$(cargo test --release --features cuda --lib --no-run 2>&1 | tee /dev/stderr | program)" "$1/fedcast-tests"
    cp "$(cargo bench --features cuda --bench gpu --no-run 2>&1 | tee /dev/stderr | program)" "$1/fedcast-gpu"
    cp "$(cargo test --release --features cuda --package fedcast-kernels --lib --no-run 2>&1 | tee /dev/stderr | program)" \
        "$1/fedcast-kernels-tests"
    say "built fedcast, fedcast-tests, fedcast-kernels-tests and fedcast-gpu in $1"
}

# The folders that hold the CUDA 13 libraries; libcuda.so.1 must be the driver's own.
library_folders() {
    local library folder all=
    for library in libcublas.so.13 libcublasLt.so.13 libcurand.so.10; do
        folder=$(find target/cuda-toolkit "${CUDA_HOME:-/usr/local/cuda}" /opt /usr/local /usr/lib "$HOME" \
            -name "$library" -not -path '*/stubs/*' -printf '%h\n' -quit 2>/dev/null || true)
        [ -n "$folder" ] || { say "$library is not on this machine (CUDA 13)" >&2; return 1; }
        case ":$all:" in *":$folder:"*) ;; *) all=${all:+$all:}$folder ;; esac
    done
    printf '%s' "$all"
}

# field NAME <FILE: a number of the final table that `fedcast run` prints.
field() {
    case $1 in
    accuracy) sed -nE 's/^final average accuracy.* ([0-9.]+) %$/\1/p' ;;
    wall) sed -nE 's/^wall +([0-9.]+) s;.*/\1/p' ;;
    rounds) sed -nE 's/.* ([0-9]+) rounds, seed .*/\1/p' ;;
    events) sed -nE 's/^digests +E ([0-9a-f]+) .*/\1/p' ;;
    numbers) sed -nE 's/^digests .* N ([0-9a-f]+).*/\1/p' ;;
    memory) sed -nE 's/^memory +//p' ;;
    esac
}

study() { # PROGRAM FOLDER NAME SETTING...: one run; its table goes to FOLDER/NAME.txt
    local program=$1 folder=$2 name=$3 settings=() setting
    shift 3
    for setting in "$@"; do settings+=(--set "$setting"); done
    "$program" run scenarios/studies/participation-100.toml -o "$folder/$name" --force -q \
        --set participation.fraction=1.0 --set federation.rounds=3 --set client.epochs=2 \
        "${settings[@]}" >"$folder/$name.txt" || { say "$name: the run failed"; return 1; }
    local wall rounds
    wall=$(field wall <"$folder/$name.txt")
    rounds=$(field rounds <"$folder/$name.txt")
    printf '%-12s %8s %% FAA  %8.3f s per round   events %s  %s\n' "$name" \
        "$(field accuracy <"$folder/$name.txt")" \
        "$(awk -v wall="$wall" -v rounds="$rounds" 'BEGIN { print wall / rounds }')" \
        "$(field events <"$folder/$name.txt")" "$(field memory <"$folder/$name.txt")"
}

# runs PROGRAM FOLDER DEVICE NAME SCENARIO OVERRIDES: a line of the table of methods. The overrides
# stand between " ; ", as in tests/library/frozen/methods.txt.
runs() {
    local program=$1 folder=$2/${4//\//+} device=$3 name=$4 scenario=$5 sets=() set rest="$6 ; "
    while [ -n "$rest" ]; do
        set=${rest%% ; *} rest=${rest#* ; }
        [ -z "${set// /}" ] || sets+=(--set "$set")
    done
    mkdir -p "$folder"
    once() { # FILE SETTING...
        local file=$folder/$1 setting more=()
        shift
        for setting in "$@"; do more+=(--set "$setting"); done
        "$program" run "$scenario" -o "$file.run" --force -q "${sets[@]}" "${more[@]}" >"$file" 2>"$file.err" ||
            { echo "FAILED $name ($*): $(head -n 1 "$file.err")"; return 1; }
    }
    local seed gpu="devices.use=[\"$device\"]"
    once cpu1 || return 0
    for seed in 2 3 4; do once "cpu$seed" "seed.run=$seed" || return 0; done
    local recorded
    recorded=$(sed -n "s|^$name plain,||p" tests/library/frozen/digests.csv | cut -d, -f1,2)
    if [ -n "$recorded" ] && [ "$recorded" != "$(field events <"$folder/cpu1"),$(field numbers <"$folder/cpu1")" ]; then
        echo "FAILED $name: the CPU of this machine comes to other digests than tests/library/frozen"
    fi
    # Raw images are features of the CPU.
    if [ "$name" = fedavg/pixels ]; then return 0; fi
    once first "$gpu" || return 0
    once second "$gpu" || return 0
    once f32 "$gpu" "devices.compute=f32" || return 0
    local same=same again=again accuracies
    [ "$(field events <"$folder/first")" = "$(field events <"$folder/cpu1")" ] || same=OTHER-EVENTS
    [ "$(field events <"$folder/f32")" = "$(field events <"$folder/cpu1")" ] || same=OTHER-EVENTS
    [ "$(field numbers <"$folder/first")" = "$(field numbers <"$folder/second")" ] || again=NOT-AGAIN
    accuracies=$(for file in cpu1 cpu2 cpu3 cpu4 first f32; do field accuracy <"$folder/$file"; done | tr '\n' ' ')
    # No farther from the range of the seeds than it is wide, or than an image or two.
    awk -v name="$name" -v same=$same -v again=$again -v accuracies="$accuracies" 'BEGIN {
        split(accuracies, a, " "); low = high = a[1]
        for (i = 2; i <= 4; i++) { if (a[i] < low) low = a[i]; if (a[i] > high) high = a[i] }
        room = high - low > 1 ? high - low : 1; far = "near"
        for (i = 5; i <= 6; i++) if (a[i] < low - room || a[i] > high + room) far = "FAR"
        printf "%-20s %6.2f  %6.2f  %6.2f  %6.2f  %s %s %s\n", name, a[1], high - low, a[5], a[6], same, again, far
    }'
    rm -rf "$folder"
}

methods() { # PROGRAM FOLDER DEVICE
    local table=$2/methods.txt frozen=tests/library/frozen
    export -f runs field
    printf '%-20s %6s  %6s  %6s  %6s\n' 'FAA in %' cpu spread bf16 f32
    {
        printf 'quickstart\0scenarios/quickstart.toml\0\0'
        grep -v -e '^#' -e '^ *$' $frozen/methods.txt | while IFS='|' read -r name _ sets; do
            printf '%s\0%s\0%s\0' "${name// /}" $frozen/base.toml "$sets"
        done
    } | xargs -0 -n 3 -P "${FEDCAST_GPU_RUNS:-$(nproc)}" bash -c 'runs "$@"' runs "$1" "$2" "$3" | tee "$table"
    say "$(grep -vc FAILED "$table") runs compared, $(grep -c -E 'FAILED|OTHER|NOT-AGAIN|FAR' "$table" || true) of them not as they should be"
    ! grep -q -E 'FAILED|OTHER|NOT-AGAIN|FAR' "$table"
}

check() { # FOLDER DEVICE PART...
    local programs device=$2 work libraries code=0 pack
    programs=$(cd "$1" && pwd)
    shift 2
    [ $# -gt 0 ] || set -- ops methods study rates
    work=$(mktemp -d)
    libraries=$(library_folders) || return 1
    export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

    for part in "$@"; do
        case $part in
        ops)
            say "ops and transformer on $device"
            [ -n "${FEDCAST_GOLDEN:-}" ] || say "FEDCAST_GOLDEN is not set: the golden vectors are looked for in ../shared/data/golden only"
            FEDCAST_TEST_DEVICE=$device "$programs/fedcast-kernels-tests" --test-threads 1 --nocapture ops::everywhere || code=1
            FEDCAST_TEST_DEVICE=$device "$programs/fedcast-tests" --test-threads 1 --nocapture golden_vit || code=1
            ;;
        methods)
            say "quickstart and every method, on the CPU and on $device"
            methods "$programs/fedcast" "$work" "$device" || code=1
            ;;
        study)
            say "HGP, 100 clients, on the CPU and on $device"
            study "$programs/fedcast" "$work" cpu || code=1
            for pack in 1 8 32; do
                study "$programs/fedcast" "$work" "pack-$pack" "devices.use=[\"$device\"]" "devices.pack=$pack" || code=1
                if [ "$(field events <"$work/pack-$pack.txt")" != "$(field events <"$work/cpu.txt")" ]; then
                    say "packs of $pack: other events than on the CPU"
                    code=1
                fi
            done
            ;;
        rates)
            say "the training steps of ViT-B/16"
            "$programs/fedcast-gpu" "$device" || code=1
            ;;
        *)
            say "unknown part $part (known: ops methods study rates)" >&2
            return 2
            ;;
        esac
    done
    rm -rf "$work"
    [ $code = 0 ] && say "all of it agrees" || say "something does not agree: see above"
    return $code
}

there_is_a_gpu() {
    command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'
}

case ${1:-} in
--build)
    build "${2:?a folder for the programs}"
    exit
    ;;
--run)
    programs=${2:?the folder of the programs}
    shift 2
    ;;
-*)
    echo "unknown option $1 (known: --build FOLDER, --run FOLDER)" >&2
    exit 2
    ;;
*)
    programs=
    ;;
esac
device=${1:-cuda:0}
[ $# = 0 ] || shift
if ! there_is_a_gpu; then
    say "no GPU here (nvidia-smi lists none): nothing was checked"
    exit 20
fi
nvidia-smi -L
if [ -z "$programs" ]; then
    programs=${CARGO_TARGET_DIR:-target}/gpu-check
    build "$programs"
fi
check "$programs" "$device" "$@"
