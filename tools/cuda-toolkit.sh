#!/usr/bin/env bash
# Puts a CUDA 13.0 toolkit together without root, driver or GPU, so that
# `cargo build --features cuda` works on any x86_64 Linux machine with python3, pip and gcc.
#
#   eval "$(tools/cuda-toolkit.sh --lean)"     # folder: target/cuda-toolkit, or name another one
#   cargo build --release --features cuda
#
# The compiler and the libraries to link with come from NVIDIA's own wheels on PyPI, pinned by
# version and hash (0.7 GB to download, 1.2 GB on disk). Standard output carries nothing but
# `export` lines; a folder that is already complete is only printed again.
#
# --lean leaves out candle's kernels for quantised and mixture-of-experts layers. They are more
# than nine tenths of the compile time and fedcast calls none of them (one that is called all the
# same ends the program with its name). After switching: cargo clean --release -p candle-kernels
#
# CUDA_COMPUTE_CAP says which GPU to compile for: 90 (H100, H200) unless set.
set -euo pipefail

# CUDA 13.0 and nothing newer: candle ships its kernels as PTX, and a driver refuses PTX that
# is newer than itself (driver series 580 is CUDA 13.0). cuBLAS and cuRAND count differently.
wheels='
nvidia-cuda-nvcc==13.0.88     --hash=sha256:56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03
nvidia-nvvm==13.0.88          --hash=sha256:c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0
nvidia-cuda-crt==13.0.88      --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4
nvidia-cuda-runtime==13.0.96  --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-cccl==13.0.85     --hash=sha256:e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649
nvidia-cuda-nvrtc==13.0.88    --hash=sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575
nvidia-cublas==13.0.2.14      --hash=sha256:0cf238ffdbe46c00cb9aa98e7bca745c223a5ca5a53e686ac8b3e5a08fe80d6c
nvidia-curand==10.4.0.35      --hash=sha256:1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc
'

note() { echo "cuda-toolkit: $*" >&2; }
fail() { note "$*"; exit 1; }

lean=
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/cuda-toolkit
for argument in "$@"; do
    case $argument in
    --lean) lean=1 ;;
    -*) fail "unknown option $argument (known: --lean)" ;;
    *) folder=$argument ;;
    esac
done
capability=${CUDA_COMPUTE_CAP:-90}
compiler=${NVCC_CCBIN:-$(command -v gcc || true)}

# Wheels unpack side by side; the linker's unversioned names are ours to add.
install_wheels() {
    printf '%s' "$wheels" >"$folder/wheels.txt"
    # The wheels' own dependencies are unpinned and would bring a newer CUDA: --no-deps.
    python3 -m pip install --quiet --no-deps --no-cache-dir --only-binary=:all: --require-hashes \
        --target "$folder" --requirement "$folder/wheels.txt" >&2
    local library plain
    for library in "$cuda"/lib/lib*.so.*; do
        plain=${library%%.so.*}.so
        [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
    done
    ln -sfn lib "$cuda/lib64"
}

# libcuda comes with the driver, not with any wheel. To link without a driver, a library in which
# every function of cuda.h returns 34, CUDA_ERROR_STUB_LIBRARY. Under its run-time name it lies in
# lib/no-gpu: with that folder in LD_LIBRARY_PATH a CUDA build starts where there is no driver and
# reports that there is no GPU. Never use it on a machine that has one.
make_driver_stub() {
    mkdir -p "$cuda/lib/stubs" "$cuda/lib/no-gpu"
    {
        echo '.text'
        { grep -ohE '\bcu[A-Z][[:alnum:]_]*' "$cuda/include/cuda.h"; echo cuProfilerStart; echo cuProfilerStop; } |
            sort -u | sed 's/.*/.globl &\n.type &, @function\n&:/'
        echo 'mov $34, %eax'
        echo 'ret'
        echo '.section .note.GNU-stack,"",@progbits'
    } | "$compiler" -x assembler -shared -nostdlib -Wl,-soname,libcuda.so.1 \
        -o "$cuda/lib/stubs/libcuda.so" -
    ln -sfn ../stubs/libcuda.so "$cuda/lib/no-gpu/libcuda.so.1"
}

# nvcc for --lean. candle-kernels' build script runs it once per source file in the crate's folder;
# the functions it expects from the files left out are declared in src/ffi.rs.
make_lean_compiler() {
    cat >"$cuda/bin/nvcc-lean" <<'LEAN'
#!/usr/bin/env bash
set -euo pipefail
source= output= before=
for argument in "$@"; do
    [[ $argument == *.cu ]] && source=$argument
    [[ $before == -o ]] && output=$argument
    before=$argument
done
case $source in
src/moe/* | src/mmq_gguf/* | src/mmvq_gguf.cu) ;;
*) exec "$(dirname "$(readlink -f "$0")")/nvcc" "$@" ;;
esac
{
    printf '#include <stdio.h>\n#include <stdlib.h>\n'
    # One object holds all of them, so that none is defined twice.
    if [[ $source == src/mmvq_gguf.cu ]]; then
        sed -nE 's/^[[:space:]]*pub fn ([[:alnum:]_]+)\(.*/\1/p' src/ffi.rs | sort -u |
            sed 's/.*/void &(void) { fputs("& is not in a lean CUDA build\\n", stderr); abort(); }/'
    fi
} | "${NVCC_CCBIN:-gcc}" -x c -fPIC -O1 -c -o "$output" -
LEAN
    chmod +x "$cuda/bin/nvcc-lean"
}

# One kernel with the headers that candle's kernels include, all the way through the compiler.
try_compiler() {
    cat >"$folder/try.cu" <<'KERNEL'
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cub/cub.cuh>
#include <cuda/std/limits>
#include <mma.h>
extern "C" __global__ void round_to_bf16(const float *x, __nv_bfloat16 *y) {
    y[threadIdx.x] = __float2bfloat16(x[threadIdx.x]);
}
KERNEL
    "$cuda/bin/nvcc" -ccbin "$compiler" -arch="sm_$capability" -std=c++17 \
        -c -o "$folder/try.o" "$folder/try.cu" >&2 ||
        fail "nvcc cannot compile a kernel; gcc 15 is the newest it takes (NVCC_CCBIN names another)"
    rm -f "$folder"/try.*
}

[ "$(uname -sm)" = "Linux x86_64" ] || fail "the pinned wheels are for x86_64 Linux"
[ -n "$compiler" ] || fail "gcc is needed"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cuda=$folder/nvidia/cu13
complete=$folder/complete
if ! cmp -s "$complete" "${BASH_SOURCE[0]}"; then
    python3 -m pip --version >/dev/null 2>&1 || fail "python3 with pip is needed"
    note "assembling in $folder"
    rm -rf "$folder/nvidia" "$folder"/*.dist-info "$complete"
    install_wheels
    make_driver_stub
    make_lean_compiler
    try_compiler
    # A copy of this script marks the folder: another version assembles anew.
    cp "${BASH_SOURCE[0]}" "$complete"
fi
note "ready: $folder ($("$cuda/bin/nvcc" --version | sed -n 's/.*\(release [0-9.]*\).*/\1/p'))"

# candle-kernels reads NVCC and CUDA_COMPUTE_CAP (else it asks nvidia-smi), cudarc reads CUDA_HOME
# and CUDARC_CUDA_VERSION (else it asks nvcc). A changed value compiles them again.
cat <<EXPORTS
export CUDA_HOME='$cuda' CUDA_PATH='$cuda' PATH='$cuda/bin':"\$PATH"
export CUDARC_CUDA_VERSION=13000 CUDA_COMPUTE_CAP='$capability'
EXPORTS
if [ -n "$lean" ]; then echo "export NVCC='$cuda/bin/nvcc-lean'"; else echo "export NVCC='$cuda/bin/nvcc'"; fi
if [ -n "${NVCC_CCBIN:-}" ]; then echo "export NVCC_CCBIN='$NVCC_CCBIN'"; fi
